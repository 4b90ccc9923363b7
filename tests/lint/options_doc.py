#!/usr/bin/python3
"""Holds conf/vanilla.conf and conf/vanilla.conf.5 against conf/options.def: every setting is in both, in its own group,
with its default and its range or choices; and nothing is in them that is not a setting."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROW = re.compile(r'OPTION\((\w+), (\w+), (\w+), (?:AT\([^)]*\)|NOWHERE), "([^"]*)", (\d+), (\d+), "([^"]*)", '
                 r'(LIVE|RESTART), "([^"]+)"\)')
SECTIONS = {"TOP": "The file itself", "LISTEN": "listen and admin", "ADMIN": "listen and admin", "LIMITS": "limits",
            "TIMEOUTS": "timeouts", "MEMORY": "memory", "LOG": "log", "SHED": "shed",
            "CLIENT": "client", "CORS": "cors", "POOL": "pools", "ROUTE": "routes"}
AGGREGATES = ("GROUP", "GROUPS")
NOT_SET = ("-", "!")
problems = []


class Option:
    def __init__(self, row, line):
        self.group, self.name, self.kind, self.default, low, high, choices, when, self.meaning = row
        self.line = line
        self.range = low + ".." + high
        self.choices = choices.split("|") if choices else []
        self.restart = when == "RESTART"

    def has_range(self):
        """Statuses of sheds are a set, which the meaning says."""
        return self.kind in ("COUNT", "AUTO") and (self.group, self.name) != ("SHED", "status") and \
            self.name != "shed_status"

    def range_is_in(self, text):
        return re.search(r"(?<!\d)%s(?!\d)" % re.escape(self.range), text) is not None

    def written(self):
        """The default as it stands in a file."""
        return self.default if self.kind in ("COUNT", "FLAG") else '"%s"' % self.default


def complain(path, line, text):
    problems.append("%s:%d: %s" % (path, line, text))


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read().split("\n")


def options(path):
    found = []
    for number, line in enumerate(read(path), 1):
        if line.startswith("OPTION("):
            row = ROW.fullmatch(line)
            if row:
                found.append(Option(row.groups(), number))
            else:
                complain(path, number, "not a row of the table")
    return found


def file_settings(path):
    """(group, name) -> (line, value, comment) of vanilla.conf; what is commented out counts, and the first of its kind."""
    groups = {SECTIONS[group]: group for group in ("LIMITS", "TIMEOUTS", "MEMORY", "LOG", "SHED", "CLIENT", "CORS",
                                                       "POOL", "ROUTE")}
    found, inside = {}, None
    for number, line in enumerate(read(path), 1):
        code = re.sub(r"^#(?=\S)|^#(?=    \w)", "", line)
        if code.startswith("#") or not code.strip():
            continue
        opened = re.match(r"(\w+)\s*=\s*(?:\{|\( \{|\()$", code.rstrip())
        if opened and inside is None:
            inside = groups.get(opened.group(1), "?")
            found.setdefault(("TOP", opened.group(1)), (number, "", ""))
        elif re.match(r"\} ?\)?;|\);", code):
            inside = None
        else:
            setting = re.match(r'\s*(\w+)\s*=\s*((?:"[^"]*"|[^"#])*);\s*(?:#\s*(.*))?$', code)
            if setting and (inside is None or line.startswith("#")):
                found.setdefault((inside or "TOP", setting.group(1)), (number, setting.group(2), setting.group(3) or ""))
    return found


def check_file(table, path):
    found = file_settings(path)
    text = "\n".join(read(path))
    for option in table:
        if option.group in ("LISTEN", "ADMIN"):             # on one line with their groups
            continue
        if option.name in ("listen", "admin"):
            default = [each.default for each in table if each.default not in NOT_SET and
                       (each is option or each.group == option.name.upper())][0]
            if not re.search(r'^%s = .*\{ address = "%s"; \}' % (option.name, re.escape(default)), text, re.M):
                complain(path, 1, "%s is not %s, its default" % (option.name, default))
        line, value, comment = found.pop((option.group, option.name), (0, None, None))
        if value is None:
            complain(path, 1, "%s of %s is missing" % (option.name, SECTIONS[option.group]))
            continue
        if option.kind not in AGGREGATES:
            if option.default not in NOT_SET and value != option.written():
                complain(path, line, "%s is %s, its default %s" % (option.name, value, option.written()))
            if not comment:
                complain(path, line, "%s has no comment" % option.name)
            if option.has_range() and not option.range_is_in(comment):
                complain(path, line, "%s: the comment does not say %s" % (option.name, option.range))
            for choice in option.choices:
                if choice not in comment and '"%s"' % choice != value:
                    complain(path, line, "%s: the comment does not name %s" % (option.name, choice))
        if "restart" in (comment or ""):
            complain(path, line, "%s is marked, but every setting needs a restart: there is no reload" % option.name)
    for (group, name), (line, _, _) in found.items():
        complain(path, line, "%s is not a setting of %s" % (name, SECTIONS.get(group, group)))


def page_settings(path):
    """(section, name) -> (line, value, text) of the manual page."""
    found, section, names = {}, None, []
    lines = read(path)
    for number, line in enumerate(lines, 1):
        if line.startswith(".S"):
            section, names = line.split(" ", 1)[1] if line.startswith(".SS ") else None, []
        elif lines[number - 2] == ".TP" and section:
            entry = re.fullmatch(r"\\fB(\w+)\\fR(?: = \\fB(.*)\\fR)?", line)
            names = [entry.group(1)] if entry else []
            if entry:
                found[section, names[0]] = [number, entry.group(2) or "", ""]
            elif line.startswith(".BR ") and section == "The file itself":
                for name in re.findall(r"\w+", line[3:]):
                    found[section, name] = [number, "", ""]
        elif names:
            found[section, names[0]][2] += line + "\n"
    return found


def check_page(table, path):
    found = page_settings(path)
    named = set()
    for option in table:
        key = (SECTIONS[option.group], option.name)
        named.add(key)
        if key not in found:
            complain(path, 1, "%s of %s is missing" % (option.name, key[0]))
            continue
        line, value, text = found[key]
        if option.kind in AGGREGATES and not option.restart:
            continue
        if option.group == "ADMIN":                         # stands with its group
            line, value, _ = found.get(("The file itself", "admin"), (1, "", ""))
        if option.group == "ADMIN" or option.kind == "GROUPS":
            if option.default not in NOT_SET and 'address = "%s";' % option.default not in value:
                complain(path, line, "the default is %s, not %s" % (option.default, value))
        elif option.group != "LISTEN" and option.kind != "GROUP":
            wanted = "" if option.default in NOT_SET else option.written()
            if value != wanted:
                complain(path, line, "%s is %s, its default %s" % (option.name, value or "not set", wanted or "not set"))
        if option.has_range() and not option.range_is_in(text):
            complain(path, line, "%s: the text does not say %s" % (option.name, option.range))
        for choice in option.choices:
            if choice not in text and '"%s"' % choice != value:
                complain(path, line, "%s: the text does not name %s" % (option.name, choice))
        if ".IR Restart ." in text:
            complain(path, line, "%s is marked, but every setting needs a restart: there is no reload" % option.name)
    for key in found:
        if key not in named:
            complain(path, found[key][0], "%s is not a setting of %s" % (key[1], key[0]))


def main():
    table = options("conf/options.def")
    if not table:
        complain("conf/options.def", 1, "no settings found")
    check_file(table, "conf/vanilla.conf")
    check_page(table, "conf/vanilla.conf.5")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
