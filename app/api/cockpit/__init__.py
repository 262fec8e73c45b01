"""What operators steer by: versions, experiments, the page."""
