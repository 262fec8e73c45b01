"""Prints what the Python of an image has installed, as a CycloneDX 1.6 bill of materials."""

import json
import sys
from importlib.metadata import Distribution, distributions
from typing import Any


def bill_of_materials() -> dict[str, Any]:
    """Every installed distribution: name, version, licence and package URL, sorted by name."""
    found = sorted(map(component, distributions()), key=lambda each: each["purl"])
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": found}


def component(installed: Distribution) -> dict[str, Any]:
    """One distribution as CycloneDX names it."""
    given = installed.metadata
    name = given["Name"].lower().replace("_", "-")
    licence = given["License-Expression"]
    return {
        "type": "library",
        "name": name,
        "version": installed.version,
        "purl": f"pkg:pypi/{name}@{installed.version}",
        **({"licenses": [{"expression": licence}]} if licence else {}),
    }


if __name__ == "__main__":
    json.dump(bill_of_materials(), sys.stdout, indent=1)
