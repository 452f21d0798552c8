"""What the words in tables and sentences mean, for legends and for ``v6t explain``."""

from __future__ import annotations

from collections.abc import Iterable

TERMS = {
    "P1": "first percentile of the repetitions by nearest rank: up to 99 repetitions the smallest",
    "P99": "99th percentile of the repetitions by nearest rank: up to 99 repetitions the largest",
    "TL": "typical latency: the median delay of a stream's tagged frames (RFC 8219 section 7.2)",
    "WCL": "worst case latency: the 99.9th percentile of the delays of a stream's tagged frames "
    "(RFC 8219 section 7.2)",
    "PDV": "packet delay variation: the 99.9th percentile of a stream's delays less the smallest "
    "(RFC 8219 section 7.3.1)",
    "IPDV": "inter packet delay variation: how much the delay changes from one frame to the next "
    "(RFC 8219 section 7.3.2)",
    "Xpd": "degradation: by how many per cent a rate is below that of one flow "
    "(RFC 8219 section 10.2.1)",
    "R": "the rate of phase 1 at which connections were set up (RFC 9693)",
    "aggregate": "both directions together; every other rate is of one direction",
    "frames matched": "share of the received and compared frames that equal the reference "
    "translation octet by octet; a dash: none was compared",
    "loss": "the share of the frames required that did not come back",
    "Dmin": "the smallest delay of a stream",
    "D99.9": "the 99.9th percentile of a stream's delays",
    "Dmax": "the largest delay of a stream",
    "95 % interval": "distribution-free confidence interval of the median; a dash: too few "
    "repetitions for one",
    "dispersion": "P99 less P1, in per cent of the median",
    "limited by the tester": "above what the tester itself does without a device, less its margin, "
    "or the maximum of the medium: the device may be faster; marked with *",
    "*": "the tester or the medium is the limit: the device may be faster; at an offered rate: above "
    "what the tester's self-test covers",
    "Mpps": "million frames per second",
    "cannot be told": "of a clause or a difference: what came allows neither verdict; not a "
    "deviation, and no proof of the contrary",
    "tester capacity": "the rate the tester reaches without a device, in the same streams",
    "invalid trial": "a trial in which the tester faltered: it says nothing about the device, is "
    "measured again and never counted as loss",
    "validated": "connections whose translation was seen and compared, one by one (RFC 9693)",
    "required": "frames of a trial that were asked for",
    "sent": "frames of a trial that the tester really sent",
    "surplus": "frames that came back more often than they were sent, or must have been dropped",
    "foreground": "frames that the technology translates",
    "background": "native frames beside them (RFC 8219 section 5.3)",
    "negative traffic": "frames that the device must drop",
    "Initiator": "the tester's side that opens connections (RFC 9693)",
    "Responder": "the tester's side that answers them (RFC 9693)",
    "PSID": "port set identifier: which ports of a shared IPv4 address are a CE's (RFC 7597)",
    "EA bits": "embedded address bits: the rest of a CE's IPv4 address, and its PSID, inside its "
    "IPv6 prefix (RFC 7597)",
    "goal": "of MLRsearch: loss ratio, exceed ratio, trial durations and width that bounds are searched "
    "for (RFC 9971 section 4.6)",
    "exceed ratio": "share of a goal's duration sum that trials with more loss may take at a lower bound "
    "(RFC 9971 section 4.6.4)",
    "lower bound": "relevant lower bound: the largest load below every upper bound at which a goal is "
    "kept (RFC 9971 section 4.8.2)",
    "upper bound": "relevant upper bound: the smallest load at which a goal is not kept "
    "(RFC 9971 section 4.8.1)",
    "conditional throughput": "the forwarding rate to be expected at a goal's lower bound "
    "(RFC 9971 appendix B)",
    "IRREGULAR": "a goal's result without both bounds, or with bounds farther apart than its width "
    "(RFC 9971 section 4.8.4.2)",
    "residual wait": "after the last frame was sent, so long frames may still arrive",
    "self-test": "the tester measured without a device, over a cable or in loopback",
}
"""Each with what it is; names as they stand in tables."""

COMMON = {
    "rate": "frames per second in one direction, Ethernet frames with FCS; the highest one without loss "
    "is the throughput (RFC 2544 section 26.1)",
    "line rate": "the highest rate of frames the slowest medium carries, 20 octets of preamble and gap "
    "counted with each frame (`line_rate` of the testbed file)",
    "median": "the middle one of the repetitions' values in order, or the mean of the two in the middle: "
    "half of them are not above it",
    "CCDF": "complementary cumulative distribution function: the share of the tagged frames that took "
    "longer than a delay",
}
"""Words that no legend of a table repeats."""


def legend(headings: Iterable[str]) -> list[tuple[str, str]]:
    """Find the terms that occur as words of headings."""
    words = {word.strip(",()+<") for heading in headings for word in heading.split()}
    text = " ".join(" ".join(heading.split()) for heading in headings)
    return [
        (term, meaning)
        for term, meaning in TERMS.items()
        if term in words or (" " in term and term in text)
    ]
