namespace Whimbrel.Conformance;

// Measures that prevent amplification attacks with datagram servers, on every engine, over UDP (the names contain Ip)
// and over Unix sockets.
public sealed class EpollIpAmplification() : AmplificationSuite(Transport.EpollTcp);

public sealed class EpollUnixAmplification() : AmplificationSuite(Transport.EpollUnix);

#if PORTABLE
public sealed class PortableIpAmplification() : AmplificationSuite(Transport.PortableTcp);
#endif

#if MEMORY
public sealed class MemoryIpAmplification() : AmplificationSuite(Transport.MemoryTcp);

public sealed class MemoryUnixAmplification() : AmplificationSuite(Transport.MemoryUnix);
#endif
