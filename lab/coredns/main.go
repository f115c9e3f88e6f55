// Command coredns is CoreDNS with only the plugins that the lab's Corefile uses.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func init() {
	// The order is the order in which a query passes through the plugins.
	dnsserver.Directives = []string{"reload", "ready", "errors", "cache", "kubernetes", "forward"}
}

func main() { coremain.Run() }
