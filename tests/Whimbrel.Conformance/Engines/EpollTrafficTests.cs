namespace Whimbrel.Conformance;

// The epoll engine: the suites about traffic, groups, timers and stress, over TCP and over Unix sockets.
public sealed class EpollTcpSendAsync() : SendAsyncSuite(Transport.EpollTcp);

public sealed class EpollUnixSendAsync() : SendAsyncSuite(Transport.EpollUnix);
