#!/usr/bin/env python3
"""screen2svg.py COLUMNS ROWS TITLE [X Y]: draws a terminal's screen as SVG.

Standard input is what `tmux capture-pane -e -N -p` prints: text with SGR sequences, one line per row. X
and Y are the cursor's cell, counted from zero. The picture needs no font of its own: every run of text
is stretched to its cells, and rules are drawn.
"""

import re
import sys
import unicodedata
from html import escape

CELL_W, CELL_H, FONT = 8.4, 18, 14
PAD, BAR, GAP = 14, 34, 8
FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
FOREGROUND, BACKGROUND, FRAME, TITLE = "#e0e2ea", "#14161b", "#2c2e33", "#9b9ea4"
# Dark enough for the character on it.
CURSOR = "#5c6068"

# Neovim's own sixteen colours, so that the agents look as they do beside its dark scheme.
SIXTEEN = """
#07080d #ffc0b9 #b3f6c0 #fce094 #a6dbff #ffcaff #8cf8f7 #c4c6cd
#7b7f88 #ffc0b9 #b3f6c0 #fce094 #a6dbff #ffcaff #8cf8f7 #eef1f8
""".split()

# Which sides of its cell a rule reaches: left, right, up, down.
RULES = {
    "─": "lr", "━": "lr", "│": "ud", "┃": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu",
    "├": "rud", "┤": "lud", "┬": "lrd", "┴": "lru", "┼": "lrud",
    "╭": "rd", "╮": "ld", "╰": "ru", "╯": "lu",
}  # fmt: skip


def colour(number):
    if number < 16:
        return SIXTEEN[number]
    if number < 232:
        number -= 16
        levels = [0, 95, 135, 175, 215, 255]
        return "#%02x%02x%02x" % tuple(
            levels[i] for i in (number // 36, number // 6 % 6, number % 6)
        )
    return "#%02x%02x%02x" % ((8 + 10 * (number - 232),) * 3)


class Style:
    """What SGR sequences have set."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.fg = self.bg = None
        self.bold = self.faint = self.italic = self.underline = self.reverse = False

    def apply(self, parameters):
        # `4:3` (a curly underline) counts as its first number; 58 colours underlines.
        numbers = [int(p.split(":")[0] or 0) for p in parameters.split(";")]
        while numbers:
            n = numbers.pop(0)
            if n in (38, 48, 58):
                kind = numbers.pop(0) if numbers else 0
                if kind == 5:
                    value = colour(numbers.pop(0))
                else:
                    value = "#%02x%02x%02x" % tuple(numbers[:3])
                    del numbers[:3]
                if n == 38:
                    self.fg = value
                elif n == 48:
                    self.bg = value
            elif n == 0:
                self.reset()
            elif n == 1:
                self.bold = True
            elif n == 2:
                self.faint = True
            elif n == 3:
                self.italic = True
            elif n == 4:
                self.underline = True
            elif n == 7:
                self.reverse = True
            elif n == 22:
                self.bold = self.faint = False
            elif n == 23:
                self.italic = False
            elif n == 24:
                self.underline = False
            elif n == 27:
                self.reverse = False
            elif 30 <= n <= 37:
                self.fg = colour(n - 30)
            elif n == 39:
                self.fg = None
            elif 40 <= n <= 47:
                self.bg = colour(n - 40)
            elif n == 49:
                self.bg = None
            elif 90 <= n <= 97:
                self.fg = colour(n - 82)
            elif 100 <= n <= 107:
                self.bg = colour(n - 92)

    def key(self):
        fg, bg = self.fg or FOREGROUND, self.bg
        if self.reverse:
            fg, bg = bg or BACKGROUND, fg
        return fg, bg, self.bold, self.faint, self.italic, self.underline


def cells(line, style):
    """The cells of a row: (character, width in cells, style)."""
    at = 0
    for match in re.finditer(r"\x1b\[([0-9;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x1f]", line):
        yield from plain(line[at : match.start()], style)
        if match.group(1) is not None:
            style.apply(match.group(1))
        at = match.end()
    yield from plain(line[at:], style)


def plain(text, style):
    for char in text:
        if unicodedata.combining(char):
            continue
        wide = unicodedata.east_asian_width(char) in "WF"
        yield char, 2 if wide else 1, style.key()


def number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def rect(x, y, w, h, fill):
    return f'<rect x="{number(x)}" y="{number(y)}" width="{number(w)}" height="{number(h)}" fill="{fill}"/>'


def rule(char, x, y, fill):
    """The parts of a box-drawing character, meeting in the middle of the cell."""
    sides, thick = RULES[char], 1.2
    middle_x, middle_y = x + CELL_W / 2, y + CELL_H / 2
    left = x if "l" in sides else middle_x - thick / 2
    right = x + CELL_W if "r" in sides else middle_x + thick / 2
    top = y if "u" in sides else middle_y - thick / 2
    bottom = y + CELL_H if "d" in sides else middle_y + thick / 2
    if "l" in sides or "r" in sides:
        yield rect(left, middle_y - thick / 2, right - left, thick, fill)
    if "u" in sides or "d" in sides:
        yield rect(middle_x - thick / 2, top, thick, bottom - top, fill)


def runs(row):
    """Neighbouring cells of one style and kind: (first column, width, text, style, kind)."""
    run = None
    column = 0
    for char, width, style in row:
        kind = char if char in RULES else "blank" if char == " " else "text"
        # Blanks end a run of text, so that each word is stretched to its own cells.
        if run and run[3] == style and run[4] == kind and width == 1:
            run[1] += width
            run[2] += char
        else:
            if run:
                yield run
            run = [column, width, char, style, kind]
        column += width
    if run:
        yield run


def draw(rows, cols, lines, title, cursor):
    width, height = cols * CELL_W + 2 * PAD, lines * CELL_H + BAR + GAP + PAD
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" '
        f'width="{number(width)}" height="{number(height)}" role="img" aria-label="{escape(title)}">',
        f"<style>text{{font-family:{FONTS};font-size:{FONT}px;white-space:pre}}</style>",
        f'<rect width="100%" height="100%" rx="9" fill="{FRAME}"/>',
        f'<path d="M1 {BAR}H{number(width - 1)}V{number(height - 9)}q0 8-8 8H9q-8 0-8-8z" fill="{BACKGROUND}"/>',
    ]
    for i, dot in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        out.append(f'<circle cx="{20 + 20 * i}" cy="{BAR // 2}" r="6" fill="{dot}"/>')
    out.append(
        f'<text x="{number(width / 2)}" y="{BAR // 2 + 5}" text-anchor="middle" fill="{TITLE}">{escape(title)}</text>'
    )
    style = Style()
    backs, fronts = [], []
    for r, line in enumerate(rows[:lines]):
        y = BAR + GAP + r * CELL_H
        grounds = []
        for column, wide, text, key, kind in runs(cells(line, style)):
            fg, bg, bold, faint, italic, underline = key
            x, w = PAD + column * CELL_W, wide * CELL_W
            if bg:
                # One rectangle for neighbours of one colour, or seams would show.
                joined = grounds and grounds[-1][1:] == [column, bg]
                if joined:
                    grounds[-1][1] += wide
                else:
                    grounds.append([column, column + wide, bg])
            opacity = ' opacity="0.6"' if faint else ""
            if kind in RULES:
                parts = "".join(rule_run(kind, x, y, wide, fg))
                fronts.append(f"<g{opacity}>{parts}</g>" if opacity else parts)
            elif kind == "text":
                attributes = opacity
                if bold:
                    attributes += ' font-weight="bold"'
                if italic:
                    attributes += ' font-style="italic"'
                if underline:
                    attributes += ' text-decoration="underline"'
                fronts.append(
                    f'<text x="{number(x)}" y="{number(y + 13.5)}" textLength="{number(w)}" '
                    f'lengthAdjust="spacingAndGlyphs" fill="{fg}"{attributes}>{escape(text)}</text>'
                )
        for start, end, bg in grounds:
            backs.append(rect(PAD + start * CELL_W, y, (end - start) * CELL_W, CELL_H, bg))
    if cursor:
        x, y = PAD + cursor[0] * CELL_W, BAR + GAP + cursor[1] * CELL_H
        backs.append(rect(x, y, CELL_W, CELL_H, CURSOR))
    return "\n".join(out + backs + fronts + ["</svg>"]) + "\n"


def rule_run(char, x, y, wide, fill):
    if RULES[char] == "lr":
        # A long rule is one line.
        yield rect(x, y + CELL_H / 2 - 0.6, wide * CELL_W, 1.2, fill)
        return
    for i in range(wide):
        yield from rule(char, x + i * CELL_W, y, fill)


def main():
    cols, lines, title = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    rows = sys.stdin.read().split("\n")
    cursor = [int(number) for number in sys.argv[4:6]]
    sys.stdout.write(draw(rows, cols, lines, title, cursor))


if __name__ == "__main__":
    main()
