"""A format's automaton accepts what its RFC does, as far as that is regular."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import re
from typing import TYPE_CHECKING

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catalog_compiler.arguments import automata
from catalog_compiler.arguments.automata import FORMAT_GAPS, FORMAT_MAX_CHARS, KNOWN_FORMATS
from tests.catalog_compiler.arguments.walks import check

if TYPE_CHECKING:
    from pathlib import Path

CASES: dict[str, tuple[list[str], list[str]]] = {
    "date": (
        ["2024-02-29", "2000-02-29", "0000-02-29", "1999-12-31", "9999-04-30"],
        ["2023-02-29", "1900-02-29", "2024-02-30", "2024-04-31", "2024-13-01", "2024-00-10",
         "2024-1-01", "24-01-01", "2024-01-00", "২024-01-01", "2024-01-01\n", ""],
    ),
    "time": (
        ["00:00:00Z", "23:59:59.999z", "12:30:45+05:45", "12:30:45-23:59", "23:59:60Z",
         "01:29:60+01:30", "23:29:60.5+23:30", "15:59:60-08:00", "00:29:60-23:30"],
        ["24:00:00Z", "12:60:00Z", "12:00:61Z", "12:00:00", "12:00Z", "12:00:00.Z",
         "12:00:00+24:00", "12:00:00+0100", "22:59:60Z", "23:58:60Z", "23:59:60+01:00",
         "23:59:60-00:30", "12:00:00Z ", "1:00:00Z"],
    ),
    "date-time": (
        ["1985-04-12T23:20:50.52Z", "1996-12-19t16:39:57-08:00", "1990-12-31T15:59:60-08:00",
         "2024-02-29T00:00:00+00:00"],
        ["2023-02-29T00:00:00Z", "1985-04-12 23:20:50Z", "1985-04-12", "1985-04-12T23:20:50",
         "1998-12-31T23:58:60Z", "2013-350T01:01:01Z"],
    ),
    "duration": (
        ["P4DT12H30M5S", "P1Y2M3D", "P2W", "PT0S", "PT1M", "P1M", "PT36H", "P1YT1S"],
        ["P", "PT", "P1Y2D", "PT1H5S", "P1YT", "P1W2D", "P1D2H", "4D", "P-1D", "P1.5D", "p1d"],
    ),
    "uuid": (
        ["2EB8AA08-aa98-11EA-B4aa-73b441d16380", "00000000-0000-0000-0000-000000000000"],
        ["2eb8aa08-aa98-11ea-b4aa-73b441d1638", "2eb8aa08aa9811eab4aa73b441d16380",
         "2eb8aa08-aa98-11ea-b4ga-73b441d16380", "{2eb8aa08-aa98-11ea-b4aa-73b441d16380}"],
    ),
    "email": (
        ["joe.bloggs@example.com", "te~st+x@example.com", '"joe bloggs"@example.com',
         r'"a\"@b"@example.com', "joe@[127.0.0.1]", "joe@[IPv6:::1]", "a@b", "a" * 64 + "@b.c"],
        [".test@example.com", "te..st@example.com", "test.@example.com", "2962", "a@", "@b",
         "a b@example.com", "joe@-bad.com", "joe@[127.0.0.300]", "a@b@c", "a@b.", "é@example.com",
         "a" * 65 + "@b.c"],
    ),
    "idn-email": (["실례@실례.테스트", "joe@example.com"], ["2962", "실례"]),
    "hostname": (
        ["www.example.com", "xn--4gbwdl.xn--wgbh1c", "a", "1host", "a-b.c", "a" * 63 + ".b"],
        ["-a.b", "a-.b", "a..b", ".a", "a.", "a_b", "", "a b", "ä.com", "a" * 64],
    ),
    "idn-hostname": (["실례.테스트", "bücher.example", "a。b"], ["-a", "a b", "", "〮_"]),
    "ipv4": (
        ["0.0.0.0", "255.255.255.255", "192.168.1.10"],
        ["256.0.0.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.4 ", "1.2.3.0x4", "১.2.3.4"],
    ),
    "ipv6": (
        ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1::8", "1:2:3:4:5:6:1.2.3.4",
         "::42:ff:1", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "d6::"],
        [":", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "::g",
         "1:2:3:4:5:6:7:1.2.3.4", "::1%eth0", "::/64", "1.2.3.4", ":1::", "::1.2.3"],
    ),
    "uri": (
        ["http://foo.bar/?baz=qux#quux", "urn:isbn:0451450523", "mailto:a@b.c", "a:", "a:/",
         "ldap://[2001:db8::7]/c=GB?objectClass?one", "http://u:p@h:80/%20a;b", "http://[v1.a:b]",
         "http://-.~_!$&'()*+,;=:%40:80%2f::::::@example.com", "file:///etc/x", "tel:+1-816"],
        ["//foo.bar/?baz", "/abc", "abc", "http://a b", "http://a/%2", "http://a/%zz", ":a", "1a:b",
         "http://[::1", "http://[1.2.3.4]", "http://a/<b>", "http://a/\\b", "bar,baz:foo",
         "http://ƒøø.ßår", 'http://a/"', "http://a/{b}", "http://a:80x", "http://a#b#c", "a:^", ""],
    ),
    "uri-reference": (
        ["", "abc", "/abc?x#y", "//h/p", "#frag", "?q", "./a:b", "http://a", "a/b:c"],
        ["\\\\WINDOWS\\f", "#a\\b", "a b", "1:b", "%", "ü"],
    ),
    "iri": (["http://ƒøø.ßår/?∂éœ=πîx#πîüx", "http://a/\U00010000"],
            ["/abc", "http://a/\ufdd0", "http://a/\U0001fffe", "âππ"]),
    "iri-reference": (["âππ", "//ƒøø", "#ƒrägmênt"], ["\\\\W", "#ƒräg\\mênt"]),
    "uri-template": (
        ["http://example.com/dictionary/{term:1}/{term}", "{+a,b*}{?x.y,%20z}", "", "{#a:9999}"],
        ["http://example.com/dictionary/{term:1}/{term", "{}", "}", "{a:0}", "{a:10000}", "{a b}",
         "a b", "{a,}", "<"],
    ),
    "json-pointer": (
        ["", "/", "/foo/0", "/a~1b/m~0n", "//", "/ ", "/é\n"],
        ["a", "/~", "/~2", "#", "#/a", "/a~"],
    ),
    "relative-json-pointer": (
        ["0", "1", "10/foo", "0#", "2/0/baz/1/zip", "1/"],
        ["", "/foo", "-1/a", "+1", "01", "0##", "1a", "1#a"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(KNOWN_FORMATS))
def test_right_values(name: str):
    """Right values for every format that is known."""
    accepted, refused = CASES[name]
    found = automata.string_format(name)
    assert found is not None
    check(found)
    assert [text for text in accepted if not found.accepts_text(text)] == []
    assert [text for text in refused if found.accepts_text(text)] == []


def test_other_formats_are_not_known():
    """Whoever asks for one is told so."""
    assert automata.string_format("regex") is None
    assert automata.string_format("date ") is None
    assert FORMAT_MAX_CHARS.keys() <= KNOWN_FORMATS
    assert FORMAT_GAPS.keys() <= KNOWN_FORMATS


@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))
@example(2100, 2, 29)
@example(2400, 2, 29)
def test_dates_are_the_calendars(year: int, month: int, day: int):
    """A date is accepted exactly where the calendar has it."""
    text = f"{year:04}-{month:02}-{day:02}"
    try:  # years 0 and 400 have the same days; Python's begin at 1
        dt.date(year or 400, month, day)
    except ValueError:
        exists = False
    else:
        exists = True
    found = automata.string_format("date")
    assert found is not None
    assert found.accepts_text(text) == exists


@given(st.integers(-48, 47), st.integers(0, 23), st.integers(0, 59))
def test_leap_seconds_end_a_day_in_utc(half_hours: int, hour: int, minute: int):
    """The second 60 stands only where it is 23:59 in UTC."""
    ahead = max(min(30 * half_hours, 23 * 60 + 30), -(23 * 60 + 30))
    sign, size = "-" if ahead < 0 else "+", abs(ahead)
    text = f"{hour:02}:{minute:02}:60{sign}{size // 60:02}:{size % 60:02}"
    found = automata.string_format("time")
    assert found is not None
    assert found.accepts_text(text) == ((60 * hour + minute - ahead) % 1440 == 1439)
    utc_end = (1439 + ahead) % 1440
    assert found.accepts_text(f"{utc_end // 60:02}:{utc_end % 60:02}:60{text[8:]}")


@given(st.one_of(st.text("0123456789abf:.", max_size=20), st.ip_addresses().map(str)))
def test_addresses_are_pythons(text: str):
    """Addresses are those that Python reads, of either version."""
    for name, kind in (("ipv4", ipaddress.IPv4Address), ("ipv6", ipaddress.IPv6Address)):
        try:
            kind(text)
        except ValueError:
            exists = False
        else:
            exists = True
        found = automata.string_format(name)
        assert found is not None
        assert found.accepts_text(text) == exists


# RFC 3986, appendix B, splits any text; appendix A says of what each part is made.
URI_PARTS = re.compile(
    r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
UNRESERVED = r"A-Za-z0-9\-._~"
PCHAR = rf"(?:[{UNRESERVED}!$&'()*+,;=:@]|%[0-9A-Fa-f]{{2}})"
AUTHORITY = re.compile(
    rf"(?:(?:[{UNRESERVED}!$&'()*+,;=:]|%[0-9A-Fa-f]{{2}})*@)?"
    rf"(?:[{UNRESERVED}!$&'()*+,;=]|%[0-9A-Fa-f]{{2}})*(?::[0-9]*)?"
)


def is_reference(text: str, *, absolute: bool) -> bool:
    """Judge by parts, for texts without brackets."""
    found = URI_PARTS.fullmatch(text)
    assert found is not None
    scheme, authority, path, query, fragment = found.groups()
    if scheme is not None and not re.fullmatch("[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return False
    if scheme is None and (absolute or (authority is None and ":" in path.split("/")[0])):
        return False
    return (
        (authority is None or AUTHORITY.fullmatch(authority) is not None)
        and re.fullmatch(f"(?:{PCHAR}|/)*", path) is not None
        and all(
            part is None or re.fullmatch(f"(?:{PCHAR}|[/?])*", part) is not None
            for part in (query, fragment)
        )
    )


@given(st.text("a1:/?#@.%-+ é[", max_size=10).filter(lambda text: "[" not in text))
def test_uris_are_what_their_parts_say(text: str):
    """Reading a text part by part gives the same answer as its automaton."""
    for name, absolute in (("uri", True), ("uri-reference", False)):
        found = automata.string_format(name)
        assert found is not None
        assert found.accepts_text(text) == is_reference(text, absolute=absolute)


@pytest.mark.shared_data
def test_real_instances_keep_their_formats(shared_data: Path):
    """Every valid instance's formats hold; an invalid one is not taken for valid by them."""
    checker = jsonschema.FormatChecker(formats=())
    for name in KNOWN_FORMATS:
        checker.checks(name)(lambda value, name=name: holds(name, value))
    seen = {True: 0, False: 0}
    rows = (shared_data / "schemas" / "maskbench_dev.jsonl").read_text("utf-8")
    for line in rows.split("\n"):
        if '"format"' not in line:
            continue
        row = json.loads(line)
        kind = jsonschema.validators.validator_for(
            row["schema"], default=jsonschema.Draft202012Validator
        )
        validator = kind(row["schema"], format_checker=checker)
        for test in row["tests"]:
            assert validator.is_valid(test["data"]) == test["valid"], row["id"]
            seen[test["valid"]] += 1
    assert min(seen.values()) > 100


def holds(name: str, value: object) -> bool:
    found = automata.string_format(name)
    assert found is not None
    if not isinstance(value, str):
        return True
    return found.accepts_text(value) and len(value) <= FORMAT_MAX_CHARS.get(name, len(value))
