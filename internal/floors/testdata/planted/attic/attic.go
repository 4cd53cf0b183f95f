package attic

// Roof is imported from below, which it should not be.
const Roof = true
