"""Bedrock's wire under `/aws`: model invocation jobs, and the small part of S3 that they and boto3 need.

Odd about it: lines come from one bucket object and go to another, all of them into one file; a create with a token that
was seen before makes no second job; the model stands at the job. Signatures are asked for, not verified.
"""

from starlette.routing import BaseRoute

from pipeline.simulator.engine import Engine
from pipeline.simulator.wires._speaking import Speaker
from pipeline.simulator.wires.bedrock.jobs import WIRE, Jobs
from pipeline.simulator.wires.bedrock.lines import BedrockLines
from pipeline.simulator.wires.bedrock.objects import Objects
from pipeline.simulator.wires.bedrock.speaking import Json, Xml


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire; the jobs' come first, because a bucket may have any name."""
    objects = Objects(Speaker(engine, WIRE, Xml()))
    engine.register(WIRE, BedrockLines(engine))
    return [*Jobs(Speaker(engine, WIRE, Json()), objects).routes("/aws"), *objects.routes("/aws")]
