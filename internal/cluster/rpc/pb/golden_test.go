package pb

import (
	"flag"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testwire"
)

var update = flag.Bool("update", false, "add the new forms of messages to the golden file")

// Agents of today read the messages of agents of earlier versions.
func TestGolden(t *testing.T) {
	testwire.Golden(t, "testdata/messages.jsonl", *update, File_exchange_proto, File_coordination_proto)
}
