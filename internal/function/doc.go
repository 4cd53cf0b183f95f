// Package function calls receivers that are functions of the database.
//
// A call is one transaction: the function runs in it, and so does the record of its
// success. Its writes and its acknowledgement are committed together or not at all, so a
// repeat cannot be observed. Where the function fails, nothing that it wrote stays, and
// its SQLSTATE is the verdict.
//
// The function is somebody else's code on a connection of ours: it may set what it likes,
// lock, listen, loop, and end its own session. A connection is used again only after a
// call that was acknowledged and left nothing behind.
package function
