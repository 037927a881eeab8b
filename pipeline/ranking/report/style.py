"""How the page looks: one column, a system font, two colours that colour-blind readers tell apart, and paper."""

CSS = """
:root{color-scheme:light;--ink:#1b1b1b;--soft:#5a5a5a;--line:#d5d5d5}
:root{--blue:#0072b2;--orange:#d55e00;--pale:#f4f6f8}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:68rem;padding:1rem 1rem 4rem;color:var(--ink);background:#fff;
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.25rem;margin:2.5rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.5rem 0 .25rem}
p{margin:.5rem 0;max-width:46rem}
.answer{font-size:1.15rem}
.note{color:var(--soft);font-size:.92rem}
.facts{display:flex;flex-wrap:wrap;gap:.5rem;padding:0;margin:1rem 0;list-style:none}
.facts li{background:var(--pale);border-radius:.5rem;padding:.5rem .75rem;min-width:7rem}
.facts b{display:block;font-size:1.2rem;font-variant-numeric:tabular-nums}
.facts span{color:var(--soft);font-size:.85rem}
.warn{border-left:.3rem solid var(--orange);background:#fff6ef;padding:.5rem 1rem;margin:1rem 0}
.warn ul{margin:.25rem 0;padding-left:1.1rem}
.scroll{overflow-x:auto;margin:.75rem 0}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums;width:100%}
caption{text-align:left;color:var(--soft);font-size:.85rem;padding-bottom:.25rem}
th,td{padding:.25rem .5rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th,td{vertical-align:middle}
th:first-child,table.words td{text-align:left}
th[scope=row]{font-weight:600;max-width:22rem;overflow:hidden;text-overflow:ellipsis}
table.words td{white-space:normal;overflow-wrap:anywhere}
table.words th[scope=row]{white-space:normal;overflow-wrap:anywhere;vertical-align:top}
thead th{color:var(--soft);font-weight:600;border-bottom:2px solid var(--line)}
tbody tr.edge>*{border-top:2px solid var(--ink)}
td.wide{width:45%;min-width:9rem}
.plot{position:relative;height:1.4rem}
.plot span{position:absolute}
.plot .bar{top:.5rem;height:.4rem;background:var(--blue);opacity:.35;border-radius:.2rem}
.plot .dot{top:.35rem;width:.7rem;height:.7rem;margin-left:-.35rem;border-radius:50%;background:var(--blue)}
.plot .mark{top:0;bottom:0;width:1px;background:var(--soft)}
.ends{display:flex;justify-content:space-between;font-weight:400}
table.matrix{width:auto;font-size:.8rem}
table.matrix td{text-align:center;min-width:2.6rem;border:1px solid #fff}
table.matrix thead th{text-align:center;max-width:5rem;overflow:hidden;text-overflow:ellipsis}
table.matrix th[scope=row]{max-width:14rem;position:sticky;left:0;background:#fff}
.scatter{width:100%;max-width:24rem;font-size:11px}
.scatter text{fill:var(--soft)}
.scatter .middle{text-anchor:middle}
.scatter .axis{fill:none;stroke:var(--soft)}
.scatter .even{stroke:var(--orange);stroke-dasharray:4 4}
.scatter .spot{fill:var(--blue);fill-opacity:.7;stroke:#fff}
pre{background:var(--pale);padding:.5rem .75rem;font-size:.85rem;margin:.25rem 0}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
@media (max-width:40rem){
 body{padding:.75rem .75rem 3rem;font-size:15px}
 h1{font-size:1.35rem}
 .minor{display:none}
 th,td{padding:.25rem .35rem}
 th[scope=row]{min-width:6.5rem;max-width:8.5rem;white-space:normal;overflow-wrap:break-word;line-height:1.25}
 .ends span:nth-child(2){display:none}
 td.wide{min-width:5.5rem}
}
@media print{
 body{max-width:none;font-size:10pt;padding:0}
 .scroll{overflow:visible}
 section{break-inside:auto}
 h2,h3{break-after:avoid}
 tr,.warn,.facts li,svg,pre{break-inside:avoid}
 .bar,.dot,.mark,.tint,.facts li,.warn,pre{print-color-adjust:exact;-webkit-print-color-adjust:exact}
 table.matrix{font-size:7pt}
}
"""
