"""What a request passes on its way in, one concern in each module; `gate` has their order."""
