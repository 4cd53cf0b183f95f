package cellar

import "example.com/planted/attic"

// Leaks depends on the attic.
const Leaks = !attic.Roof
