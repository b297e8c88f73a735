namespace Whimbrel.Conformance;

// The epoll engine: every suite over TCP and over Unix sockets.
public sealed class EpollTcpLifecycle() : LifecycleSuite(Transport.EpollTcp);

public sealed class EpollUnixLifecycle() : LifecycleSuite(Transport.EpollUnix);
