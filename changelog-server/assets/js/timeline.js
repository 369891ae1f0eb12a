// Zooming and panning of timelines.
