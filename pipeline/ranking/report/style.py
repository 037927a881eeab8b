"""How a page looks: one column, a system font, two colours that colour-blind readers tell apart, night, and paper."""

CSS = """
:root{color-scheme:light dark;--ink:#1b1b1b;--soft:#595959;--line:#d9dce0;--paper:#fff;--pale:#f3f5f7}
:root{--blue:#0072b2;--orange:#d55e00;--glow:#fdf1e8;--shade:#b9bec4}
@media (prefers-color-scheme:dark){
 :root{--ink:#ececec;--soft:#a9adb3;--line:#3a3f45;--paper:#15181b;--pale:#20252a}
 :root{--blue:#56b4e9;--orange:#e69f00;--glow:#2c2417;--shade:#5c636b}
}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0 auto;max-width:68rem;padding:1.5rem 1rem 4rem;color:var(--ink);background:var(--paper);
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.above{color:var(--soft);font-size:.92rem;margin:0;overflow-wrap:anywhere}
h1{font-size:2rem;line-height:1.2;letter-spacing:-.01em;margin:.25rem 0 .75rem;max-width:30ch;overflow-wrap:anywhere}
h2{font-size:1.35rem;line-height:1.25;margin:3rem 0 .5rem;padding-top:1rem;border-top:1px solid var(--line)}
h3{font-size:1.02rem;margin:2rem 0 .25rem}
p{margin:.5rem 0;max-width:44rem}
.answer{font-size:1.12rem}
.note{color:var(--soft);font-size:.92rem}
.open{border:2px solid var(--orange);border-radius:.5rem;padding:.5rem .9rem;max-width:none}
nav{display:flex;flex-wrap:wrap;gap:.15rem 1.1rem;margin:1.25rem 0 0;font-size:.9rem}
a{color:var(--blue);text-decoration:none}
a:hover,a:focus{text-decoration:underline}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.6rem}
.facts{padding:0;margin:1.25rem 0;list-style:none}
.facts li{background:var(--pale);border-radius:.5rem;padding:.6rem .9rem}
.facts b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}
.facts span{display:block;color:var(--soft);font-size:.85rem;line-height:1.35}
.warn{border-left:.3rem solid var(--orange);background:var(--glow);padding:.6rem 1rem;margin:1.25rem 0}
.warn h2{font-size:1rem;margin:0;padding:0;border:0}
.warn ul{margin:.25rem 0;padding-left:1.1rem}
.warn summary{cursor:pointer;color:var(--blue)}
.warn li{margin:.2rem 0;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:.75rem 0;background:no-repeat var(--paper)}
.scroll{background-image:linear-gradient(90deg,var(--paper) 40%,transparent),
 linear-gradient(270deg,var(--paper) 40%,transparent),
 linear-gradient(90deg,var(--shade),transparent),linear-gradient(270deg,var(--shade),transparent)}
.scroll{background-size:2.4rem 100%,2.4rem 100%,.9rem 100%,.9rem 100%;background-position:0 0,100% 0,0 0,100% 0}
.scroll{background-attachment:local,local,scroll,scroll}
.whole{white-space:nowrap}
.scroll:focus-visible{outline:2px solid var(--blue);outline-offset:2px}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums;width:100%}
caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
th,td{padding:.28rem .5rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th,td{vertical-align:middle}
th:first-child,table.words td,table.words thead th{text-align:left}
th[scope=row]{font-weight:600;min-width:8rem;max-width:24rem;white-space:normal;overflow-wrap:break-word;line-height:1.3}
table.words td{white-space:normal;overflow-wrap:anywhere}
table.words th[scope=row]{vertical-align:top}
thead th{color:var(--soft);font-weight:600;border-bottom:2px solid var(--line)}
tbody tr.edge>*{border-top:2px solid var(--ink)}
td.wide{width:34%;min-width:9rem}
.plot{position:relative;height:1.4rem}
.plot span{position:absolute}
.plot .bar{top:.5rem;height:.4rem;background:var(--blue);opacity:.4;border-radius:.2rem}
.plot .dot{top:.35rem;width:.7rem;height:.7rem;margin-left:-.35rem;border-radius:50%;background:var(--blue)}
.plot .mark{top:0;bottom:0;width:1px;background:var(--soft);opacity:.6}
.ends{display:flex;justify-content:space-between;font-weight:400;gap:.5rem}
table.matrix{width:auto;font-size:.8rem}
table.matrix td{text-align:center;min-width:2.6rem;border:1px solid var(--paper)}
table.matrix thead th:not(:first-child){text-align:center}
table.matrix thead th{white-space:normal;max-width:9rem;overflow-wrap:break-word;vertical-align:bottom}
table.matrix th[scope=row]{max-width:16rem;position:sticky;left:0;background:var(--paper);border-color:var(--paper)}
table.matrix tr.edge>*{border-top:2px solid var(--ink)}
table.dense td{min-width:.85rem;width:.85rem;height:1.05rem;padding:0;line-height:1}
table.dense thead th{padding:.1rem 0;font-size:.6rem;font-weight:400}
table.dense th[scope=row]{padding:0 .4rem 0 0;font-size:.72rem;font-weight:400;line-height:1.15}
td.tint{color:#000}
td.tint.pale-by-day{color:#fff}
@media screen and (prefers-color-scheme:dark){
 td.tint{color:#fff}
 td.tint.dark-at-night{color:#000}
}
dl{margin:.5rem 0;max-width:46rem}
dt{font-weight:600;margin-top:.6rem}
dd{margin:0;color:var(--soft)}
.scatter{width:100%;max-width:24rem;font-size:11px}
.scatter text{fill:var(--soft)}
.scatter .middle{text-anchor:middle}
.scatter .axis{fill:none;stroke:var(--soft)}
.scatter .even{stroke:var(--orange);stroke-dasharray:4 4}
.scatter .spot{fill:var(--blue);fill-opacity:.7;stroke:var(--paper)}
pre{background:var(--pale);padding:.5rem .75rem;font-size:.85rem;margin:.35rem 0;border-radius:.4rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
@media (max-width:40rem){
 body{padding:.9rem .9rem 3rem;font-size:15px}
 h1{font-size:1.5rem}
 h2{margin-top:2.25rem}
 .facts{grid-template-columns:1fr 1fr}
 .minor{display:none}
 th,td{padding:.25rem .3rem}
 th[scope=row]{min-width:6rem;max-width:9rem}
 table.matrix th[scope=row]{min-width:6.5rem;max-width:8.5rem;font-size:.75rem}
 .ends span:nth-child(2){display:none}
 td.wide,table.words td{min-width:5.5rem}
 .plot .dot{top:.45rem;width:.5rem;height:.5rem;margin-left:-.25rem}
}
@media print{
 :root{color-scheme:light;--ink:#000;--soft:#444;--line:#ccc;--paper:#fff;--pale:#f3f5f7}
 :root{--blue:#0072b2;--orange:#d55e00;--glow:#fdf1e8}
 @page{margin:16mm 14mm}
 body{max-width:none;font-size:9.5pt;padding:0}
 h1{font-size:18pt}
 h2{margin-top:1.5rem}
 nav{display:none}
 .scroll{overflow:visible;background:none}
 .whole{white-space:normal}
 .facts{grid-template-columns:repeat(4,1fr)}
 h2,h3,.note{break-after:avoid}
 thead{display:table-header-group}
 tr,.warn li,.facts li,svg,pre,dt{break-inside:avoid}
 details::details-content{content-visibility:visible;height:auto}
 *{print-color-adjust:exact;-webkit-print-color-adjust:exact}
 table{font-size:8.5pt}
 th,td{padding:.15rem .3rem}
 table.matrix{font-size:7pt}
 table.matrix td{min-width:0;padding:.15rem .1rem}
 th[scope=row],table.matrix th[scope=row]{min-width:5rem;overflow-wrap:anywhere}
 table.matrix thead th{overflow-wrap:anywhere}
}
"""
