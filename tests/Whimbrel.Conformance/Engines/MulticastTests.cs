namespace Whimbrel.Conformance;

// Multicast, on every engine.
public sealed class EpollIpMulticast() : MulticastSuite(Transport.EpollTcp);

#if PORTABLE
public sealed class PortableIpMulticast() : MulticastSuite(Transport.PortableTcp);
#endif

#if MEMORY
public sealed class MemoryIpMulticast() : MulticastSuite(Transport.MemoryTcp);
#endif
