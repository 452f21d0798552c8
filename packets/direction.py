"""Directions of test traffic."""

from typing import Literal

Direction = Literal["forward", "reverse"]
"""``forward`` is from left to right, from the IPv6 side to the IPv4 side; ``reverse`` is the opposite."""

DIRECTIONS: tuple[Direction, Direction] = ("forward", "reverse")
