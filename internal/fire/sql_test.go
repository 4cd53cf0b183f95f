package fire_test

import (
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestEveryStatementSuitsTheSchemaAndSaysWhatItDoes(t *testing.T) { pgtest.Statements(t, "fire") }
