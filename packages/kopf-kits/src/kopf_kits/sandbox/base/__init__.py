"""What everything else here is made of: JSON and failures."""
