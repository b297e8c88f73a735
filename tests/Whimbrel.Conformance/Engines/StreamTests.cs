namespace Whimbrel.Conformance;

// Streams on every engine, over TCP and over Unix sockets.
public sealed class EpollTcpStream() : StreamSuite(Transport.EpollTcp);

public sealed class EpollUnixStream() : StreamSuite(Transport.EpollUnix);

public sealed class EpollTcpStreamServer() : StreamServerSuite(Transport.EpollTcp);

public sealed class EpollUnixStreamServer() : StreamServerSuite(Transport.EpollUnix);

#if PORTABLE
public sealed class PortableTcpStream() : StreamSuite(Transport.PortableTcp);

public sealed class PortableUnixStream() : StreamSuite(Transport.PortableUnix);

public sealed class PortableTcpStreamServer() : StreamServerSuite(Transport.PortableTcp);

public sealed class PortableUnixStreamServer() : StreamServerSuite(Transport.PortableUnix);
#endif

#if MEMORY
public sealed class MemoryTcpStream() : StreamSuite(Transport.MemoryTcp);

public sealed class MemoryUnixStream() : StreamSuite(Transport.MemoryUnix);

public sealed class MemoryTcpStreamServer() : StreamServerSuite(Transport.MemoryTcp);

public sealed class MemoryUnixStreamServer() : StreamServerSuite(Transport.MemoryUnix);
#endif
