"""What a tester and a device exchange: frames that are forwarded, or queries that are answered."""

from typing import Literal

Exchange = Literal["frames", "queries"]
