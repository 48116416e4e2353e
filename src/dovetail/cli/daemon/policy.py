"""`dovetail policy` and `dovetail tenant`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from dovetail.api.machine_row import PolicyTold
from dovetail.api.tenant_row import TenantRow, Tenants
from dovetail.api.wire import read
from dovetail.cli.reach import (
    command_again,
    print_json,
    print_lines,
    shown_or_set,
    warn_of_unknown,
    with_client,
)
from dovetail.client.connection import Client
from dovetail.client.job_words import number
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


@shown_or_set
def policy(client: Client, as_json: bool) -> None:
    """Say which policy decides; `policy set NAME` changes it, and stops no job."""
    found = read(PolicyTold, client.get("/v1/policy"))
    if as_json:
        print_json(found)
        return
    click.echo(found.policy)
    if found.trouble:
        click.echo(f"dovetail: {found.trouble}", err=True)


@policy.command("set")
@click.argument("name")
@predictor
@with_client
def set_policy(client: Client, name: str, predictor: str | None) -> None:
    """NAME is one of `dovetail policies`, with parameters if need be: las:quantum=600."""
    before = read(PolicyTold, client.get("/v1/policy"))
    asked = {"policy": with_predictor(name, predictor)}
    now = read(PolicyTold, client.put("/v1/policy", asked))
    click.echo(f"{now.policy} decides now, in place of {before.policy}.")


# ----------------------------------------------------------------------------------------- tenants


def _members(users: Sequence[str], groups: Sequence[str]) -> str:
    return ", ".join([*users, *(f"group {name}" for name in groups)]) or "everybody"


_COLUMNS: tuple[Column[TenantRow], ...] = (
    Column("TENANT", lambda row: row.name, least=12),
    Column("QUOTA", lambda row: number(row.gpu_quota) or "none", right=True),
    Column("WEIGHT", lambda row: number(row.weight), right=True),
    Column("HOLDS", lambda row: number(row.gpus) or "0", right=True),
    Column("FOR", lambda row: _members(row.users, row.groups)),
)


@shown_or_set
def tenant(client: Client, as_json: bool) -> None:
    """List the tenants; `tenant set NAME --quota N` gives one a quota of GPUs."""
    found = read(Tenants, client.get("/v1/tenants")).tenants
    if as_json:
        print_json(found)
    elif found:
        print_lines(table(_COLUMNS, found))
    else:
        again = f"{command_again()} tenant set NAME --quota GPUS makes one"
        click.echo(f"There are no tenants: everybody may use all nodes. {again}.")


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
    all_ = read(Tenants, client.get("/v1/tenants")).tenants
    new = TenantRow(name=name, gpu_quota=None, weight=1.0, gpus=None, users=[], groups=[])
    row = next((row for row in all_ if row.name == name), new)
    row.gpu_quota = row.gpu_quota if quota is None else _quota(quota)
    row.weight = row.weight if weight is None else weight
    row.users = row.users if users is None else _names(users)
    row.groups = row.groups if groups is None else _names(groups)
    asked = {key: own for key, own in vars(row).items() if key != "gpus"}
    found = read(Tenants, client.put("/v1/tenants", asked))
    limit = "no quota" if row.gpu_quota is None else f"a quota of {row.gpu_quota:g} GPUs"
    told = f"Tenant {name} has {limit} and weight {row.weight:g}"
    click.echo(f"{told}, for {_members(row.users, row.groups)}.")
    warn_of_unknown(found.unknown)


def _names(text: str) -> list[str]:
    return [] if text == "all" else [name.strip() for name in text.split(",") if name.strip()]


def _quota(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"--quota {text}: write a number of GPUs, or none") from None
