package pb

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testwire"
)

// Agents of today read the messages of agents of earlier versions.
func TestGolden(t *testing.T) {
	testwire.Golden(t, "testdata/messages.jsonl", File_exchange_proto, File_coordination_proto)
}
