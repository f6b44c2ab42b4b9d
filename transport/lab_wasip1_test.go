package transport

var tcpLabs []lab // no sockets here
