"""Who held which chips from when to when, who waited and what was lost, sent as commands."""
