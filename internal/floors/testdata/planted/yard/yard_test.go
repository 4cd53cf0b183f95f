package yard

import "example.com/planted/attic"

const overlooks = Open && attic.Roof
