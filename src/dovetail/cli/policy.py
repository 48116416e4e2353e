"""`dovetail policy` and `dovetail tenant`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from dovetail.cli.job_columns import number
from dovetail.cli.reach import as_json, print_json, print_lines, with_client
from dovetail.client.connection import Client
from dovetail.text.tables import Column, table

predictor = click.option(
    "--predictor",
    metavar="NAME",
    help="That tells the policy durations, such as mixture; see dovetail catalogue predictors.",
)


def with_predictor(policy: str, predictor: str | None) -> str:
    """It is a parameter of policies that need durations."""
    if not predictor:
        return policy
    from dovetail.catalogue import within

    return f"{policy}:predictor={within(predictor)}"


@click.group(invoke_without_command=True)
@as_json
@click.pass_context
def policy(ctx: click.Context, as_json: bool) -> None:
    """Say which policy decides; `policy set NAME` changes it, and stops no job."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(_say_policy, as_json=as_json)


@with_client
def _say_policy(client: Client, as_json: bool) -> None:
    found = client.get("/v1/policy")
    if as_json:
        print_json(found)
        return
    click.echo(found["policy"])
    if found["trouble"]:
        click.echo(f"dovetail: {found['trouble']}", err=True)


@policy.command("set")
@click.argument("name")
@predictor
@with_client
def set_policy(client: Client, name: str, predictor: str | None) -> None:
    """NAME is one of `dovetail policies`, with parameters if need be: las:quantum=600."""
    before = client.get("/v1/policy")["policy"]
    now = client.put("/v1/policy", {"policy": with_predictor(name, predictor)})["policy"]
    click.echo(f"{now} decides now, in place of {before}.")


# ----------------------------------------------------------------------------------------- tenants


def _told_for(row: Mapping[str, Any]) -> str:
    """Who may use it."""
    told = [*row["users"], *(f"group {name}" for name in row["groups"])]
    return ", ".join(told) or "everybody"


_COLUMNS = (
    Column("TENANT", lambda row: str(row["name"]), least=12),
    Column("QUOTA", lambda row: number(row["gpu_quota"]) or "none", right=True),
    Column("WEIGHT", lambda row: number(row["weight"]), right=True),
    Column("HOLDS", lambda row: number(row["gpus"]) or "0", right=True),
    Column("FOR", _told_for),
)


@click.group(invoke_without_command=True)
@as_json
@click.pass_context
def tenant(ctx: click.Context, as_json: bool) -> None:
    """List the tenants; `tenant set NAME --quota N` gives one a quota of GPUs."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(_list_tenants, as_json=as_json)


@with_client
def _list_tenants(client: Client, as_json: bool) -> None:
    found = client.get("/v1/tenants")["tenants"]
    if as_json:
        print_json(found)
    else:
        print_lines(table(_COLUMNS, found))


@tenant.command("set")
@click.argument("name")
@click.option("--quota", metavar="GPUS", help="GPUs at once, or none.")
@click.option("--weight", type=click.FloatRange(0, min_open=True), help="Of its fair share.  [1]")
@click.option(
    "--users", metavar="NAMES", help="Who may use it, such as ann,bob; all for everybody."
)
@click.option("--groups", metavar="NAMES", help="Groups whose members may; all for everybody.")
@with_client
def set_tenant(
    client: Client,
    name: str,
    quota: str | None,
    weight: float | None,
    users: str | None,
    groups: str | None,
) -> None:
    """What is not named stays as it is."""
    known: dict[str, Any] = next(
        (row for row in client.get("/v1/tenants")["tenants"] if row["name"] == name), {}
    )
    asked = {
        "name": name,
        "gpu_quota": known.get("gpu_quota") if quota is None else _quota(quota),
        "weight": known.get("weight", 1.0) if weight is None else weight,
        "users": known.get("users", []) if users is None else _names(users),
        "groups": known.get("groups", []) if groups is None else _names(groups),
    }
    client.put("/v1/tenants", asked)
    limit = "no quota" if asked["gpu_quota"] is None else f"a quota of {asked['gpu_quota']:g} GPUs"
    told = f"Tenant {name} has {limit} and weight {asked['weight']:g}"
    click.echo(f"{told}, for {_told_for(asked)}.")


def _names(text: str) -> list[str]:
    return [] if text == "all" else [name.strip() for name in text.split(",") if name.strip()]


def _quota(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"--quota {text}: write a number of GPUs, or none") from None
