"""A campaign that was begun, with what its file has got since."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from v6t.base.errors import UsageError
from v6t.core.campaigns.campaign import Campaign, CampaignRun, directory_of, opened, write_plan


def extend(directory: Path, campaign: Campaign) -> int:
    """Add to the plan in a directory what a campaign has beyond it; nothing planned there is touched.

    Args:
        directory: of the campaign as it was planned.
        campaign: what its file says now. Runs are the same if they have experiment, testbed and axes
            in common; those that the file has no more stay.

    Returns:
        How many runs were added.

    Raises:
        UsageError: no campaign, another one, or a run that was planned otherwise: results of both
            would stand side by side.
    """
    planned = opened(directory)
    if planned.name != campaign.name:
        raise UsageError(
            f"{directory} holds the campaign {planned.name}, not {campaign.name}",
            "give it another directory with -o",
            code="campaign-changed",
        )
    known = {_key(run): run for run in planned.runs}
    runs, number = [], len(planned.runs)
    for run in campaign.runs:
        before = known.get(_key(run))
        if before is None:
            number += 1
            name = directory_of(f"{number:03d}", run.experiment, run.axes)
            before = replace(run, directory=name)
        elif before.resolved != run.resolved:
            raise UsageError(
                f"{before.directory} was planned with different settings",
                "measure the changed campaign in another directory with -o",
                code="campaign-changed",
            )
        runs.append(before)
    gone = [run for run in planned.runs if run not in runs]
    notes = {**planned.notes, **campaign.notes}
    write_plan(directory, replace(campaign, runs=(*runs, *gone), notes=notes))
    return number - len(planned.runs)


def _key(run: CampaignRun) -> tuple[str, str, str]:
    """By what a run is known whatever its number."""
    return run.experiment, run.testbed, json.dumps(run.axes, sort_keys=True)
