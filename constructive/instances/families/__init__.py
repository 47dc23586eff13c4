"""Families of instances by name. A new one is a file and a line here."""

from constructive.instances.families.family import Family
from constructive.support.registry import Registry

FAMILIES: Registry[type[Family]] = Registry(
    {
        "needle": "constructive.instances.families.needle:Needle",
        "corner": "constructive.instances.families.corner:Corner",
        "shadow": "constructive.instances.families.shadow:Shadow",
        "robust": "constructive.instances.families.robust:Robust",
        "token": "constructive.instances.families.token:Token",
        "classes": "constructive.instances.families.classes:Classes",
    }
)
"""As `--kind` takes them."""
