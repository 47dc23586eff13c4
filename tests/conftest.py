from hypothesis import HealthCheck, settings

# Build times vary on shared machines, so no test fails for being slow once.
settings.register_profile(
    "constructive", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("constructive")
