"""One construct at a time: what it gives, and what is refused."""

DATA = {
    "s": " a-B c\u00e9\n", "empty": "", "q": "it's \"q\"", "n": 7, "neg": -3, "t": True, "f": False, "nothing": None,
    "l": [1, "two", [3], {"k": "v"}, None, True], "d": {"a": 1, "b": {"c": [1, 2]}, "items": "x", "role": "r"},
    "words": ["b", "a", "c"], "rows": [{"r": "u", "v": 1}, {"r": "a", "v": 2}, {"r": "u"}],
}

# With DATA.
RENDERED = [(each,) for each in [
    # White space.
    "a\n", "a\n\n", "a\r\nb\rc\r\n", "\n", "", "{{ 1 }}\n{{ 2 }}\n", "{% if t %}\nx\n{% endif %}\ny", "  {% if t %}  \n x {% endif %}",
    "a {%- if t -%} \n\t x \n {%- endif -%}  \n b", "a  {% if t +%}\n x{% endif %}", "a\n  {%+ if t %}x{% endif %}",
    "a \n {#- c -#} \n b", "a\n  {# c #}\nb", "a {# c #} b", "a\n  {# c +#}\nb", "a\n {{- 1 -}} \n b", "a\n  {{ 1 }}\n  b",
    "x{% if t %}  {% if t %}y{% endif %}{% endif %}", "{% if t %}\n  {% if t %}y{% endif %}{% endif %}",
    "{% set a = 1 -%}\n  {% if t %}y{% endif %}", "\u00a0{%- if t %}y{% endif %}", "\u3000\n\u00a0{% if t %}y{% endif %}",
    "{{ '{{' }}{{ \"}}\" }}{{ '%}' }}", "{ { }", "{{ {'a': {}} }}", "{%- if t %}a{% else -%} b {%- endif %}", "a{#-#}b", "{##}",
    "{#- #}\n#}", "{{ 1 -}}\n  {% if t %}x{% endif %}",
    # Constants and printing.
    "{{ 1 }}{{ -1 }}{{ 007 is defined }}", "{{ 12345678901234567 }}", "{{ true }}{{ True }}{{ none }}{{ None }}{{ false }}",
    "{{ 'a' 'b' \"c\" }}", r"{{ '\n\t\\\'\"\x41\u00e9\U0001F600\101\q' }}", "{{ 'a\\\nb' }}", "{{ missing }}|", "{{ l }}", "{{ d }}", "{{ q }}{{ [q, \"a'b\", 'a\"b'] }}",
    "{{ [] }}{{ {} }}{{ (1,) }}{{ (1, 2) }}{{ [1, [2, (3, 'x')]] }}", "{{ ['\\n\\t\\x01\\x7f\\\\'] }}", "{{ [missing] }}",
    "{{ {'a': 1, 'b': 2, 'a': 3} }}", "{{ [1, 2,] }}{{ {'a': 1,} }}",
    # Names and scopes.
    "{% set a = 1 %}{{ a }}", "{% for i in [1, 2] %}{% set a = i %}{% endfor %}{{ a is defined }}",
    "{% set a = 0 %}{% for i in [1, 2] %}{{ a }}{% set a = i %}{{ a }}{% endfor %}{{ a }}", "{% if t %}{% set a = 1 %}{% endif %}{{ a }}",
    "{% set ns = namespace(x=1, y='z') %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z is defined }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set (a, b) = [1, 2] %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set a %}x{{ n }}{% endset %}[{{ a }}]",
    "{% set d.a = 1 %}", "{% set x.y = 1 %}", "{% set a = 1, 2 %}{{ a }}", "{% set a = 1 if f %}{{ a is defined }}", "{{ loop is defined }}", "{% set messages = messages[1:] %}{{ messages | length }}",
    "{% set s = s | trim %}{{ s }}{% for i in [1] %}{% set s = 'x' %}{% endfor %}{{ s }}",
    "{% for i in words %}{{ u }}{% endfor %}{% set u = 1 %}{{ u }}", "{% for i in words %}{{ n }}{% endfor %}{% set n = n + 1 %}{{ n }}", "{{ n }}{% for i in words %}{{ n }}{% endfor %}{% set n = 1 %}{{ n }}",
    # If.
    "{% if f %}a{% elif n == 7 %}b{% else %}c{% endif %}", "{% if missing %}a{% endif %}b", "{% if 0 %}{% elif '' %}{% elif [] %}{% elif {} %}{% elif nothing %}{% else %}x{% endif %}",
    "{% if f %}a{% elif f %}b{% endif %}c",
    # For.
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }} {% endfor %}",
    "{% for i in words %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}", "{% for i in [] %}a{% else %}b{% endfor %}", "{% for i in words %}a{% else %}b{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in 'a\u00e9\u4f60' %}{{ c }}.{% endfor %}",
    "{% for i in range(5) if i % 2 == 0 %}{{ i }}{{ loop.last }}{{ loop.length }}{% endfor %}", "{% for i in missing %}{{ i }}{% endfor %}x", "{% for i in n %}{% endfor %}", "{% for i in nothing %}{% endfor %}",
    "{% for i in range(6) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in [1, 2] %}{% for j in [1, 2] %}{{ loop.index }}{% if loop.last %}!{% endif %}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for a, b in [[1, 2], (3, 4)] %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in [[1]] %}{% endfor %}", "{% for r in rows if r.v is defined %}{{ r.v }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for i in words %}{% for i in [] %}{% else %}{{ loop.index }}{% endfor %}{% endfor %}", "{% for x in rows %}{{ loop.index0 }}{% for y in rows if y.r == x.r %}{{ loop.length }}{% endfor %}{% endfor %}",
    "{% for i in [1,2,3] %}{% for j in [] %}{% else %}{% break %}{% endfor %}{{ i }}{% endfor %}",
    "{% for i in [1] %}{% break %}{% else %}b{% endfor %}", "{% for i in [1, 2] %}{% continue %}{% else %}b{% endfor %}", "{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{% else %}b{% endfor %}", "{% for i in [1, 2] %}{% if i == 1 %}{% continue %}{% endif %}{% else %}b{% endfor %}",
    # Macros.
    "{% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(b=0, a=9) }}{{ m() }}", "{% macro m() %}x{% endmacro %}{{ m(1) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=1) }}",
    "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m(n) %}{% if n > 0 %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
    "{% macro m() %}{{ a }}{% endmacro %}{% set a = 5 %}{{ m() }}{% for a in [1] %}{{ m() }}{% endfor %}", "{% macro m() %} x {% endmacro %}[{{ m() | trim }}]", "{% macro m(a) %}{% set n = a %}{{ n }}{% endmacro %}{{ m(1) }}{{ n }}",
    "{% generation %}x{% set a = 1 %}{% endgeneration %}{{ a is defined }}",
    # Operators.
    "{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7 // -2 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 'a' + 'b' * 3 + '' * 9 }}{{ 2 * 'x' }}{{ 'x' * -1 }}", "{{ [1] + [2] * 2 }}{{ (1,) + (2,) }}", "{{ [1] + (2,) }}",
    "{{ 'a' + 1 }}", "{{ 'a' ~ 1 ~ none ~ missing ~ [1] }}", "{{ 1 ~ 2 + 3 }}", "{{ none + 'a' }}", "{{ missing + 'a' }}", "{{ true + 1 }}", "{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 'a' < 'b' }}{{ 1 <= 1 != 2 }}", "{{ 1 < 'a' }}", "{{ 'a' == 'a' }}{{ 1 == true }}{{ 1 == '1' }}{{ none == false }}{{ missing == missing }}{{ missing == none }}",
    "{{ [1, 'a'] == [1, 'a'] }}{{ [1] == (1,) }}{{ {'a': 1} == {'a': true} }}{{ d == d }}", "{{ 'b' in 'abc' }}{{ '' in 'abc' }}{{ 'x' not in 'abc' }}{{ 1 in l }}{{ 'a' in d }}{{ 1 in d }}{{ 3 in (1, 2) }}{{ 'x' in missing }}", "{{ 1 in 'abc' }}", "{{ 'a' in none }}", "{{ [] in {} }}",
    "{{ 1 and 0 }}{{ '' or 'x' }}{{ 0 or none }}{{ not 1 }}{{ not not 1 }}{{ not missing }}{{ 1 and 2 or 3 }}{{ t and not f }}", "{{ not 1 == 2 }}{{ not 'a' in 'b' }}", "{{ 1 if t else 2 }}{{ 1 if f else 2 }}{{ 1 if f }}|{{ 1 if f else 2 if f else 3 }}{{ (1 if t else 2) + 1 }}",
    "{{ - n }}{{ -n | abs }}{{ +n }}{{ -'a' }}", "{{ -1 | abs }}{{ (-1) | abs }}", "{{ 2 - 1 - 1 }}{{ 8 // 2 // 2 }}", "{{ f or missing }}|{{ missing and x.y.z }}|", "{{ 'a' is string and 'b' is not string }}", "{{ n in [7] and n not in [8] }}",
    # Attributes, items, slices.
    "{{ d.a }}{{ d['a'] }}{{ d.b.c[1] }}{{ d['b']['c'][-1] }}{{ d.x }}{{ d['x'] }}|", "{{ d.x.y }}", "{{ d['x']['y'] }}", "{{ l[0] }}{{ l[-1] }}{{ l[9] }}{{ l.0 }}{{ l[true] }}", "{{ s[1] }}{{ s[-2] }}{{ s[99] }}|", "{{ nothing.x }}{{ nothing['x'] }}{{ n.x }}{{ s.x }}{{ l.x }}|", "{{ missing.x }}", "{{ missing[0] }}", "{{ missing[1:] }}",
    "{{ l[1:3] }}{{ l[:1] }}{{ l[4:] }}{{ l[::2] }}{{ words[::-1] }}{{ words[-2:] }}{{ words[5:] }}{{ words[:-1] }}{{ words[2:0:-1] }}{{ words[0:2:] }}", "{{ s[1:4] }}|{{ s[::-1] }}|{{ 'a\u00e9\u4f60b'[1:3] }}", "{{ words[::0] }}", "{{ nothing[1:] }}", "{{ d[1:] }}", "{{ n[1:] }}", "{{ d.items()[1:] }}", "{{ words['a':] }}", "{{ l[none:2] }}", "{{ words[-9:9:2] }}{{ words[9:-9:-2] }}",
    "{{ range(3)[1] }}{{ range(3)[1:] | list }}{{ range(1, 10, 4) | list }}{{ range(3, 0, -1) | list }}{{ range(0) | list }}{{ range(3) | length }}", "{{ range(1, 2, 0) }}", "{{ range('a') }}", "{{ range(200000) | length }}", "{{ d['items'] }}", "{{ 'abc'['x'] }}|", "{{ l[nothing] }}|{{ d[nothing] }}|{{ d[1] }}|",
    # Filters.
    "[{{ s | trim }}][{{ ' xax ' | trim(' x') }}][{{ missing | trim }}][{{ 5 | trim }}]", "{{ s | length }}{{ l | length }}{{ d | count }}{{ '' | length }}{{ missing | length }}", "{{ n | length }}", "{{ nothing | length }}", "{{ 'aBc d' | upper }}{{ 'aBc' | lower }}{{ 'aBC dE' | capitalize }}{{ \"ab cd-ef (gh it's\" | title }}{{ n | upper }}{{ nothing | lower }}",
    "{{ d | tojson }}{{ l | tojson }}{{ q | tojson }}{{ s | tojson }}", "{{ d | tojson(indent=2) }}{{ [] | tojson(indent=2) }}{{ {'a': []} | tojson(indent=0) }}", "{{ 'a\u00e9\U0001f600\\x7f\\x01</b>' | tojson(ensure_ascii=True) }}{{ '\u00e9' | tojson(false) }}", "{{ missing | tojson }}", "{{ (1, 'a') | tojson }}", "{{ true | tojson }}{{ none | tojson }}{{ -5 | tojson }}",
    "{{ words | join(', ') }}{{ words | join }}{{ l[:2] | join('-') }}{{ rows | join('+', attribute='r') }}{{ 'abc' | join('.') }}{{ missing | join }}{{ d | join }}", "{{ n | join }}", "{{ 'aXbXc' | replace('X', '-') }}{{ 'aXbXc' | replace('X', '', 1) }}{{ 5 | replace(5, 6) }}", "{{ missing | default('x') }}{{ '' | default('x') }}{{ '' | default('x', true) }}{{ none | d('x') }}{{ missing | default }}|{{ f | default(1, boolean=True) }}",
    "{{ words | first }}{{ words | last }}{{ [] | first }}{{ [] | last }}{{ 'xyz' | first }}{{ 'xyz' | last }}{{ missing | first }}{{ d | first }}|", "{{ n | first }}", "{{ '12' | int }}{{ ' -7 ' | int }}{{ 'x' | int }}{{ 'x' | int(5) }}{{ true | int }}{{ none | int(default=4) }}{{ [] | int }}", "{{ missing | int }}", "{{ n | string + 'a' }}{{ l | string }}{{ none | string }}", "{{ 'abc' | list }}{{ d | list }}{{ range(2) | list }}{{ missing | list }}", "{{ n | list }}",
    "{{ rows | map(attribute='r') | list }}{{ rows | map(attribute='v') | first }}{{ words | map('upper') | join }}{{ missing | map(attribute='x') | list }}{{ [{'a': {'b': 1}}] | map(attribute='a.b') | list }}", "{{ rows | selectattr('v') | list | length }}{{ rows | selectattr('r', 'equalto', 'u') | list | length }}{{ rows | rejectattr('r', '==', 'u') | map(attribute='v') | list }}{{ rows | selectattr('v', 'defined') | list | length }}{{ rows | rejectattr('v') | list | length }}",
    "{{ [1, 0, 2] | select | list }}{{ [1, 2, 3] | select('odd') | list }}{{ [1, 2, 3] | reject('gt', 2) | list }}", "{{ rows | selectattr('r', 'in', ['a', 'b']) | list | length }}", "{% for k, v in d | items %}{{ k }}{% endfor %}{{ missing | items | list }}", "{{ words | reverse | list }}{{ 'abc' | reverse }}", "{% if rows | selectattr('r', 'equalto', 'none') %}always{% endif %}", "{{ rows | map(attribute='r') | length }}",
    "{{ 'a' | upper | lower ~ 'b' | upper }}", "{{ (1, 2) | first }}{{ {'a': 1}.items() | list }}{{ {'a': 1}.keys() | list }}{{ {'a': 1}.values() | join }}{{ d.items() | length }}",
    # Methods.
    "[{{ s.strip() }}][{{ s.lstrip() }}][{{ s.rstrip() }}][{{ 'xxaxx'.strip('x') }}][{{ 'abcba'.lstrip('ab') }}][{{ '\u00e9a\u00e9'.rstrip('\u00e9') }}][{{ '\u00a0\u3000x\x1f '.strip() }}]", "{{ 'a,b,,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ ' a  b '.split() }}{{ ' a  b c '.split(none, 1) }}{{ ''.split() }}{{ ''.split(',') }}{{ 'a b'.split(maxsplit=0) }}", "{{ 'a'.split('') }}", "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abc'.startswith('') }}", "{{ 'abc'.startswith(1) }}", "{{ 'aB1c dE'.upper() }}{{ 'aB'.lower() }}{{ \"they're aB1c dE\".title() }}{{ 'aB C'.capitalize() }}",
    "{{ 'aaa'.replace('a', 'b') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ 'aaa'.replace('aa', 'b') }}", "{{ d.get('a') }}{{ d.get('x') }}{{ d.get('x', 5) }}{{ d.get('items') }}", "{{ s.get('x') }}", "{{ n.strip() }}", "{{ missing.strip() }}", "{{ none.strip() }}", "{{ 'aXbX'.find('X') }}{{ 'a'.find('z') }}{{ '\u00e9X'.find('X') }}{{ 'aXbX'.count('X') }}{{ '-'.join(words) }}", "{{ '-'.join([1]) }}",
    # Tests.
    "{{ missing is defined }}{{ missing is not defined }}{{ missing is undefined }}{{ nothing is none }}{{ nothing is defined }}{{ 0 is none }}", "{{ s is string }}{{ d is mapping }}{{ l is mapping }}{{ l is iterable }}{{ s is iterable }}{{ n is iterable }}{{ missing is iterable }}{{ d is iterable }}{{ nothing is iterable }}", "{{ l is sequence }}{{ s is sequence }}{{ d is sequence }}{{ n is sequence }}{{ missing is sequence }}{{ (1,) is sequence }}{{ range(1) is sequence }}", "{{ t is true }}{{ 1 is true }}{{ f is false }}{{ 0 is false }}{{ t is boolean }}{{ 1 is boolean }}{{ 1 is integer }}{{ t is integer }}{{ t is number }}{{ 'a' is number }}",
    "{{ 2 is even }}{{ 3 is odd }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 1 is eq 1 }}{{ 1 is ne(2) }}{{ 1 is lt 2 }}{{ 1 is ge 2 }}{{ 'a' is in 'abc' }}{{ 1 is in [2] }}", "{{ 'a' is even }}", "{{ raise_exception is defined }}{{ strftime_now is defined }}{{ namespace is defined }}{{ foo is defined }}", "{{ x is defined and x.y is defined }}", "{{ not x is defined }}{{ d.x is defined }}{{ d.x.y is defined }}",
    # Functions.
    "{{ raise_exception('no: ' + s) }}", "{{ strftime_now('%d %b %Y, %A %B %H:%M:%S %y %m %j %I %p %a %%') }}", "{{ strftime_now('') }}|", "{{ dict(a=1, b='x') }}", "{{ strftime_now(1) }}", "{{ raise_exception() }}",
    # Errors of the syntax.
    "{{", "{% if t %}", "{% endif %}", "{% if %}{% endif %}", "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ [1 }}", "{{ 'a }}", "{% for in x %}{% endfor %}", "{% for x of y %}{% endfor %}", "{% set = 1 %}", "{# a", "{{ a.}}", "{{ a | }}", "{{ a is }}", "{% else %}", "{{ a b }}", "{{ 1 is defined is string }}", "{% if t %}{% endfor %}", "{{ ) }}", "{{ ! }}", "{% break %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% %}", "{{ a[] }}", "{% 5 %}", "{{ f(a=1, 2) }}", "{% if t %}a{% else %}b{% elif t %}c{% endif %}", "{{ m(a=1, a=2) }}{% macro m(a) %}{% endmacro %}",
]]

# A template, and what the Status must name.
REFUSED = [
    ("{% include 'x' %}", "line 1, column 4: the statement 'include'"), ("a\n {% extends 'x' %}", "line 2, column 5: the statement 'extends'"), ("{% block a %}{% endblock %}", "'block'"), ("{% import 'x' as y %}", "'import'"), ("{% from 'x' import y %}", "'from'"), ("{% with a = 1 %}{% endwith %}", "'with'"), ("{% raw %}{{ }}{% endraw %}", "'raw'"), ("{% filter upper %}{% endfilter %}", "'filter'"), ("{% call m() %}{% endcall %}", "'call'"), ("{% autoescape true %}{% endautoescape %}", "'autoescape'"), ("{% do x %}", "'do'"),
    ("{{ 1.5 }}", "line 1, column 4: a number"), ("{{ 1e5 }}", "a number"), ("{{ 0x10 }}", "a number"), ("{{ 1_000 }}", "a number"), ("{{ 12345678901234567890 }}", "18 digits"), ("{{ 1 / 2 }}", "'/'"), ("{{ 2 ** 3 }}", "'**'"), ("{{ x | safe }}", "the filter 'safe'"), ("{{ x | sort }}", "the filter 'sort'"), ("{{ x | map('nope') | list }}", "the filter 'nope'"), ("{{ x | selectattr('a', 'nope') }}", "the test 'nope'"), ("{{ x | selectattr('a', y) }}", "no string"), ("{{ x is sameas y }}", "the test 'sameas'"), ("{{ x is callable }}", "the test 'callable'"),
    ("{{ x.format(1) }}", "the method 'format'"), ("{{ x.append(1) }}", "the method 'append'"), ("{{ x.encode() }}", "the method 'encode'"), ("{{ x.__class__ }}", "underscore"), ("{{ x._a }}", "underscore"), ("{% set ns._a = 1 %}", "underscore"), ("{{ lipsum(5) }}", "'lipsum'"), ("{{ cycler }}", "'cycler'"), ("{{ foo(1) }}", "the function 'foo'"), ("{{ x[0](1) }}", "a call"), ("{{ x()() }}{% macro x() %}{% endmacro %}", "a call"), ("{{ x.strip(*y) }}", "'*'"), ("{{ 1, 2 }}", "a tuple"), ("{{ () }}", "an empty tuple"), ("{{ x[1, 2] }}", "several"),
    ("{% for i in x recursive %}{% endfor %}", "'recursive'"), ("{% set a | upper %}x{% endset %}", "a filter"), ("{% for i in x %}{% macro m() %}{% endmacro %}{% endfor %}", "a macro within"), ("{% macro m() %}{{ caller() }}{% endmacro %}", "'caller'"), ("{% macro m() %}{{ varargs }}{% endmacro %}", "'varargs'"), ("{% set loop = 1 %}", "'loop'"), ("{{ x | trim(1, 2) }}", "argument 2 of 'trim'"), ("{{ x | tojson(sort_keys=true) }}", "'sort_keys'"), ("{{ x | default(value=1) }}", "'value'"), ("{{ namespace({}) }}", "'namespace'"), (r"{{ '\N{DASH}' }}", r"\N"), ("{{ x is defined 5 }}", "argument 1 of 'defined'"),
    # Seen when it is rendered.
    ("{{ s | upper }}", "outside ASCII"), ("{{ s.title() }}", "outside ASCII"), ("{{ [s] }}", "outside ASCII"), ("{{ '%s' % s }}", "'%'"), ("{{ d.get }}", "the method 'get' without a call"), ("{{ s.strip is defined }}", "without a call"), ("{{ s['strip'] }}", "without a call"), ("{{ d.items }}", "without a call"), ("{{ strftime_now('%c') }}", "the format '%c'"), ("{{ '1.5' | int }}", "'1.5'"), ("{{ 999999999999999999 * 99 }}", "so large"), ("{% set x = rows | map(attribute='r') %}{{ x | list }}{{ x | list }}", "twice"), ("{{ rows | map(attribute='r') }}", "printing"), ("{{ d.items() }}", "printing"), ("{{ raise_exception }}", "printing a function"), ("{% set ns = namespace() %}{% set ns.a = ns %}", "a namespace within"), ("{% set ns = namespace() %}{{ [ns] }}", "a namespace within"), ("{% for i in l %}{{ [loop] }}{% endfor %}", "a loop within"), ("{% for i in l %}{{ loop.depth }}{% endfor %}", "'depth'"), ("{{ 'a'.replace('', 'b') }}", "'replace'"), ("{{ {1: 2} }}", "no string"), ("{{ [1] < [2] }}", "order of lists"), ("{% set ns = namespace(a=1) %}{% for i in l if ns.a %}{% endfor %}", "namespace in the 'if'"),
    ("{% for i in l %}{{ s }}{% endfor %}{% set s = 1 %}", "setting 's', which is given, behind a block"), ("{% macro m() %}{{ n }}{% endmacro %}{% set n = 1 %}", "setting 'n'"),
]
