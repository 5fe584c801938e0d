"""The string formats of JSON Schema as automata.

Owns which are known and what each accepts. A format that is not known here is no constraint, and
whoever asks must say so.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.automata.patterns import whole_pattern

if TYPE_CHECKING:
    from catalog_compiler.arguments.automaton import Automaton

_OCTET: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4: Final = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H16: Final = "[0-9A-Fa-f]{1,4}"
_LS32: Final = f"(?:{_H16}:{_H16}|{_IPV4})"

_LEAP_YEAR: Final = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE: Final = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|{_LEAP_YEAR}-02-29)"
)
_DURATION_TIME: Final = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION_DATE: Final = "(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)"

_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME: Final = rf"{_LABEL}(?:\.{_LABEL})*"
_IDN_CHARS: Final = r"[\p{L}\p{M}\p{N}]"
_IDN_LABEL: Final = rf"{_IDN_CHARS}(?:[\p{{L}}\p{{M}}\p{{N}}-]{{0,61}}{_IDN_CHARS})?"
_IDN_HOSTNAME: Final = rf"{_IDN_LABEL}(?:[.\u3002\uff0e\uff61]{_IDN_LABEL})*"
_ATEXT: Final = r"[-A-Za-z0-9!#$%&'*+/=?^_`{|}~]"
_QUOTED: Final = r'"(?:[ !#-\[\]-~]|\\[ -~]){0,62}"'
_UTF8: Final = r"\u0080-\ud7ff\ue000-\u{10ffff}"
_IDN_ATEXT: Final = _ATEXT[:-1] + _UTF8 + "]"

_PERCENT: Final = "%[0-9A-Fa-f]{2}"
_UCS: Final = r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\u{e1000}-\u{efffd}" + "".join(
    rf"\u{{{plane:x}0000}}-\u{{{plane:x}fffd}}" for plane in range(1, 14)
)
_PRIVATE: Final = r"\ue000-\uf8ff\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}"


def _time() -> str:
    """Return the pattern of full-time (RFC 3339).

    A leap second is the last one of a day in UTC: the hour and the minute are then what the offset
    makes of 23:59. That is said for offsets of whole and half hours, each of which takes states;
    a leap second in any other zone is refused.
    """
    fraction = r"(?:\.[0-9]+)?"
    leaps = []
    for half_hours in range(48):
        ahead = 30 * half_hours
        offsets = [f"[+]{ahead // 60:02}:{ahead % 60:02}"]
        behind = (24 * 60 - ahead) % (24 * 60)
        offsets.append(f"-{behind // 60:02}:{behind % 60:02}")
        if half_hours == 0:
            offsets.append("[Zz]")
        local = (24 * 60 - 1 + ahead) % (24 * 60)
        leap = f"{local // 60:02}:{local % 60:02}:60{fraction}"
        leaps.append(f"{leap}(?:{'|'.join(offsets)})")
    plain = f"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]{fraction}"
    offset = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
    return f"(?:{plain}{offset}|{'|'.join(leaps)})"


def _ipv6() -> str:
    """Return the pattern of RFC 3986, section 3.2.2 (addresses as in RFC 4291)."""
    forms = [rf"(?:{_H16}:){{6}}{_LS32}", rf"::(?:{_H16}:){{5}}{_LS32}"]
    for left in range(5):
        head = rf"(?:(?:{_H16}:){{0,{left}}}{_H16})?"
        right = 4 - left
        forms.append(rf"{head}::(?:{_H16}:){{{right}}}{_LS32}")
    forms += [
        rf"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}",
        rf"(?:(?:{_H16}:){{0,6}}{_H16})?::",
    ]
    return f"(?:{'|'.join(forms)})"


def _uri(*, international: bool, relative: bool) -> str:
    """Return the pattern of RFC 3986, appendix A, or of RFC 3987 with its wider characters."""
    more, private = (_UCS, _PRIVATE) if international else ("", "")
    unreserved = f"A-Za-z0-9._~{more}-"
    subs = "!$&'()*+,;="
    pchar = f"(?:[:@{subs}{unreserved}]|{_PERCENT})"
    segment, segment_nz = f"{pchar}*", f"{pchar}+"
    no_colon = f"(?:[@{subs}{unreserved}]|{_PERCENT})+"
    user = f"(?:[:{subs}{unreserved}]|{_PERCENT})*"
    name = f"(?:[{subs}{unreserved}]|{_PERCENT})*"
    future = rf"[vV][0-9A-Fa-f]+\.[:{subs}A-Za-z0-9._~-]+"
    host = rf"(?:\[(?:{_ipv6()}|{future})\]|{name})"
    authority = f"//(?:{user}@)?{host}(?::[0-9]*)?"
    absolute = f"/(?:{segment_nz}(?:/{segment})*)?"
    empty_or = rf"{authority}(?:/{segment})*|{absolute}"
    tail = rf"(?:\?(?:{pchar}|[/?{private}])*)?(?:#(?:{pchar}|[/?])*)?"
    whole = rf"[A-Za-z][A-Za-z0-9+.-]*:(?:{empty_or}|{segment_nz}(?:/{segment})*)?{tail}"
    if not relative:
        return whole
    return f"(?:{whole}|(?:{empty_or}|{no_colon}(?:/{segment})*)?{tail})"


def _uri_template() -> str:
    """Return the pattern of RFC 6570, section 2."""
    name = f"(?:[A-Za-z0-9_]|{_PERCENT})"
    variable = rf"{name}(?:\.?{name})*(?::[1-9][0-9]{{0,3}}|\*)?"
    expression = rf"\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}}"
    literal = rf"[!#$&(-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]"
    return f"(?:{literal}|{_PERCENT}|{expression})*"


def _email(atext: str, host: str) -> str:
    """Return a mailbox as in RFC 5321, section 4.1.2."""
    dotted = rf"(?=[^@]{{1,64}}@){atext}+(?:\.{atext}+)*"
    return rf"(?:{dotted}|{_QUOTED})@(?:{host}|\[(?:{_IPV4}|IPv6:{_ipv6()})\])"


_PATTERNS: Final = {
    "date": _DATE,  # RFC 3339, full-date
    "time": _time(),  # RFC 3339, full-time
    "date-time": f"{_DATE}[Tt]{_time()}",  # RFC 3339, date-time
    # RFC 3339, appendix A
    "duration": f"P(?:[0-9]+W|{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME})",
    "uuid": "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",  # RFC 4122
    "email": _email(_ATEXT, _HOSTNAME),
    "idn-email": _email(_IDN_ATEXT, _IDN_HOSTNAME),  # RFC 6531
    "hostname": _HOSTNAME,  # RFC 1123
    "idn-hostname": _IDN_HOSTNAME,  # RFC 5890
    "ipv4": _IPV4,
    "ipv6": _ipv6(),
    "uri": _uri(international=False, relative=False),
    "uri-reference": _uri(international=False, relative=True),
    "iri": _uri(international=True, relative=False),
    "iri-reference": _uri(international=True, relative=True),
    "uri-template": _uri_template(),
    "json-pointer": "(?:/(?:[^/~]|~[01])*)*",  # RFC 6901
    "relative-json-pointer": r"(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*)",
}

KNOWN_FORMATS: Final = frozenset(_PATTERNS)

FORMAT_MAX_CHARS: Final = {
    "hostname": 253,  # RFC 1035, section 2.3.4: 255 octets on the wire
    "email": 254,  # RFC 5321, section 4.5.3.1.3: a path of 256 octets, two of them < and >
}
"""Most characters of a text that has a format: to be counted beside the format's automaton."""

FORMAT_GAPS: Final = {
    "email": "that escapes in a quoted local part count towards its 64 characters",
    "hostname": "that the labels which begin with xn-- are Punycode",
    "idn-hostname": "IDNA's rules on neighbouring characters, and the lengths of encoded labels",
    "idn-email": "IDNA's rules on neighbouring characters, and the lengths of encoded labels",
}
"""What a format asks for that its automaton does not say: what it accepts may break that."""


@functools.cache
def string_format(name: str) -> Automaton | None:
    """Return what a format accepts, or None where the format is not known.

    A bound on the whole length is in `FORMAT_MAX_CHARS`, and what else is left open in
    `FORMAT_GAPS`.
    """
    source = _PATTERNS.get(name)
    return None if source is None else whole_pattern(source)
