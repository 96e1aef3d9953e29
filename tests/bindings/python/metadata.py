"""What the wheel says of itself: the version of the library that it holds, its license, what it needs, its types."""
import importlib.metadata
import re

import inlay

said = importlib.metadata.metadata("inlay")
assert said["Version"] == inlay.__version__, (said["Version"], inlay.__version__)
assert said["License-Expression"] == "Apache-2.0", said["License-Expression"]
assert said["Requires-Python"] == ">=3.9", said["Requires-Python"]
assert said["Description-Content-Type"] == "text/markdown" and "pip install ." in said.get_payload()
required = importlib.metadata.requires("inlay")
assert [each for each in required if "extra ==" not in each] == ["numpy>=1.24"], required
assert {re.split(r"\W", each)[0] for each in required} == {"numpy", "ml_dtypes", "tqdm"}, required
kinds = said.get_all("Classifier")
assert "Typing :: Typed" in kinds and "Programming Language :: Python :: 3" in kinds, kinds
assert not any(kind.startswith("License ::") for kind in kinds), "a license is said once, as an expression"
files = [str(path) for path in importlib.metadata.files("inlay")]
for ending in ("inlay/py.typed", "inlay/libinlay.so.1", "inlay/operators.pyi", "/licenses/LICENSE"):
    assert any(path.endswith(ending) for path in files), (ending, files)
print("OK")
