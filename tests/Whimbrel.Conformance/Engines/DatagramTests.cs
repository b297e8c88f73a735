namespace Whimbrel.Conformance;

// Datagrams, on every engine, over UDP (the names contain Ip) and over Unix sockets.
public sealed class EpollIpDatagram() : DatagramSuite(Transport.EpollTcp);

public sealed class EpollUnixDatagram() : DatagramSuite(Transport.EpollUnix);

#if PORTABLE
public sealed class PortableIpDatagram() : DatagramSuite(Transport.PortableTcp);

public sealed class PortableUnixDatagram() : DatagramSuite(Transport.PortableUnix);
#endif

#if MEMORY
public sealed class MemoryIpDatagram() : DatagramSuite(Transport.MemoryTcp);

public sealed class MemoryUnixDatagram() : DatagramSuite(Transport.MemoryUnix);
#endif
