// Package migrations holds the schema as numbered SQL files, embedded so that the
// binary carries its own schema. It has no code: internal/pg runs the files.
package migrations

import "embed"

// FS holds NNNN_name.up.sql and NNNN_name.down.sql, in golang-migrate's form.
//
//go:embed *.sql
var FS embed.FS
