// Filters of lists.
