"""Families of instances by name. A new one is a file and a line here."""

from constructive.instances.families.family import Family
from constructive.support.registry import Registry

# As `--kind` takes them.
FAMILIES: Registry[type[Family]] = Registry(
    {
        "needle": "constructive.instances.families.needle:Needle",
        "corner": "constructive.instances.families.corner:Corner",
        "shadow": "constructive.instances.families.shadow:Shadow",
        "robust": "constructive.instances.families.robust:Robust",
        "relabelled": "constructive.instances.families.relabelled:Relabelled",
        "token": "constructive.instances.families.token:Token",
        "classes": "constructive.instances.families.classes:Classes",
    }
)
