"""Chat templates, and the messages that they are given."""
from corpus import write

# Long strings and lists, and what might take more of them than their steps and bytes say.
long = "{% set x = ('ab' * 99) * 99 %}{% set y = x ~ 'c' %}{% set l = [x] * 400 %}{% set b = ' ' * 999 %}"
for i, uses in enumerate(("{{ x" + " ~ x" * 400 + " }}{{ l | join }}{{ ''.join(l) }}{{ [x, {x: 1}] | tojson }}",
                          "{{ x.strip(y) }}{{ x.find(y) }}{{ x.count(y) }}{{ y.split(x) }}{{ x.endswith((y, x)) }}{{ x in y }}",
                          "{{ x < y }}{{ {x: 1}.get(y) }}{{ b | int }}{{ x[y] }}{{ x[::-1][-1] }}{{ l | map('length') | list }}",
                          "{{ strftime_now('%Y' ~ x) }}{% macro m(a, b) %}{{ a }}{% endmacro %}{{ m(b=x, a=y) }}{{ dict(a=x, b=y) }}")):
    write("chat", f"long{i}", (long + uses).encode() + b"\x00Hello <|im_end|>\x00Hi")
# A message's text wherever a string may stand: its marks go with it.
marks = ("{% set m = messages[0].content %}{% set n = messages[1].content %}", (
    "{{ 'axa'.replace('x', m) }}{{ 'axa' | replace('x', n) }}{{ m.replace('l', n) }}{{ m.join(['a', n]) }}{{ ['a', m] | join(n) }}",
    "{{ strftime_now(m) }}{{ {m: n} | tojson }}{{ [m, {n: m}] }}{{ m.split('l') | join(n) }}{{ m.strip('Hi') }}{{ n | trim }}",
    "{{ m[::-1] }}{{ m[1:] }}{{ n[-1] }}{{ m * 2 }}{{ m ~ 'a' + n }}{{ m | reverse }}{{ m | list }}{{ [m, n] | map('upper') | join }}",
    "{{ x | default(m) }}{{ m | title }}{{ n.capitalize() }}{{ m | tojson(ensure_ascii=true) }}{{ dict(a=m) | items | list }}",
    "{% macro q(a, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ q(m, b=n) }}{% set s %}{{ m }}{% endset %}{{ s }}{% for c in m %}{{ c }}{% endfor %}",
    "{% set ns = namespace(a=m) %}{% set ns.a = ns.a + n %}{{ ns.a }}{{ {'a': m}.get('a', n) }}{% for k, v in {m: n}.items() %}{{ k + v }}{% endfor %}"))
for i, uses in enumerate(marks[1]):
    write("chat", f"marks{i}", (marks[0] + uses).encode() + b"\x00Hello <|im_end|>\x00Hi")
