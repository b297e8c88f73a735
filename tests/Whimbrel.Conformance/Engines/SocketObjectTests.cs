namespace Whimbrel.Conformance;

public sealed class EpollTcpSocketObjects() : SocketObjectSuite(Transport.EpollTcp);

public sealed class EpollUnixSocketObjects() : SocketObjectSuite(Transport.EpollUnix);

public sealed class EpollPoolSocketObjects() : SocketObjectSuite(Transport.EpollPool);

#if PORTABLE
public sealed class PortableTcpSocketObjects() : SocketObjectSuite(Transport.PortableTcp);

public sealed class PortableUnixSocketObjects() : SocketObjectSuite(Transport.PortableUnix);
#endif
