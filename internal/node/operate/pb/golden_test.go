package pb

import (
	"flag"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testwire"
)

var update = flag.Bool("update", false, "add the new forms of messages to the golden file")

// Agents and programs of today read the messages of those of earlier versions.
func TestGolden(t *testing.T) {
	testwire.Golden(t, "testdata/messages.jsonl", *update, File_answer_proto, File_application_proto,
		File_archive_proto, File_give_proto, File_operator_proto, File_queue_proto,
		File_rate_proto, File_watch_proto)
}
