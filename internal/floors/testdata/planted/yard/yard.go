package yard

// Open is fine by itself; its test is not.
const Open = true
