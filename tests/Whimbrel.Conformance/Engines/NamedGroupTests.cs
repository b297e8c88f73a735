namespace Whimbrel.Conformance;

// Named groups, on every engine and transport.
public sealed class EpollTcpNamedGroup() : NamedGroupSuite(Transport.EpollTcp);

public sealed class EpollUnixNamedGroup() : NamedGroupSuite(Transport.EpollUnix);

public sealed class PortableTcpNamedGroup() : NamedGroupSuite(Transport.PortableTcp);

public sealed class PortableUnixNamedGroup() : NamedGroupSuite(Transport.PortableUnix);

#if MEMORY
public sealed class MemoryTcpNamedGroup() : NamedGroupSuite(Transport.MemoryTcp);

public sealed class MemoryUnixNamedGroup() : NamedGroupSuite(Transport.MemoryUnix);
#endif
