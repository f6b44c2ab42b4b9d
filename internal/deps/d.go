package deps

import (
	_ "github.com/hashicorp/go-hclog"
	_ "github.com/hashicorp/memberlist"
	_ "github.com/hashicorp/raft"
	_ "github.com/hashicorp/raft-boltdb/v2"
	_ "github.com/tidwall/btree"
	_ "go.etcd.io/bbolt"
	_ "golang.org/x/sys/unix"
)
import (
	_ "github.com/anishathalye/porcupine"
	_ "go.uber.org/goleak"
)
