namespace Whimbrel.Conformance;

public sealed class EpollTcpSocketOptions() : SocketOptionSuite(Transport.EpollTcp);

public sealed class EpollUnixSocketOptions() : UnixSocketOptionSuite(Transport.EpollUnix);

#if PORTABLE
public sealed class PortableTcpSocketOptions() : SocketOptionSuite(Transport.PortableTcp);

public sealed class PortableUnixSocketOptions() : UnixSocketOptionSuite(Transport.PortableUnix);
#endif
