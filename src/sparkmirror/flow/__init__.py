"""One flow's life: controller, states, scheduler."""
