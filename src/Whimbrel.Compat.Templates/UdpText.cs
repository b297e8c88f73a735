namespace Whimbrel.Compat.Templates;

/// <summary>NetCoreServer's UdpServer and UdpClient: what they share is written once.</summary>
internal static class UdpText
{
    private const string Queued = "False: it is closed, or there is no room.";
    private const string Sent = "Bytes that were taken; 0: it is closed, or there was no room for a minute.";

    internal static string Server => Head("Server", "A UDP socket that answers: override <see cref=\"OnReceived\"/>, and call <see cref=\"ReceiveAsync\"/> for each datagram.")
        + """

            /// <summary>Where <see cref="Multicast(ReadOnlySpan{byte})"/> sends to: given at the start.</summary>
            public EndPoint MulticastEndpoint { get; private set; } = null!;

            /// <summary>Between a start and the stop.</summary>
            public bool IsStarted { get; private set; }

            /// <summary>Binds. Nothing is received before <see cref="ReceiveAsync"/>.</summary>
            /// <returns>False: it is started already.</returns>
            /// <exception cref="SocketException">The address cannot be bound.</exception>
            public virtual bool Start()
            {
                if (IsStarted) return false;
                Open(Endpoint);
                OnStarting();
                IsStarted = true;
                OnStarted();
                return true;
            }

            /// <summary>Binds, and multicasts to a group from now on.</summary>
            /// <param name="multicastAddress">The group.</param>
            /// <param name="multicastPort">Its port.</param>
            /// <returns>False: it is started already.</returns>
            public virtual bool Start(IPAddress multicastAddress, int multicastPort) => Start(new IPEndPoint(multicastAddress, multicastPort));

            /// <summary>Binds, and multicasts to a group from now on.</summary>
            /// <param name="multicastAddress">The group.</param>
            /// <param name="multicastPort">Its port.</param>
            /// <returns>False: it is started already.</returns>
            public virtual bool Start(string multicastAddress, int multicastPort) => Start(new IPEndPoint(IPAddress.Parse(multicastAddress), multicastPort));

            /// <summary>Binds, and multicasts to a group from now on.</summary>
            /// <param name="multicastEndpoint">The group and its port.</param>
            /// <returns>False: it is started already.</returns>
            public virtual bool Start(EndPoint multicastEndpoint)
            {
                MulticastEndpoint = multicastEndpoint;
                return Start();
            }

            /// <summary>Sends what is queued, and closes.</summary>
            /// <returns>False: it is not started.</returns>
            public virtual bool Stop()
            {
                if (!IsStarted) return false;
                OnStopping();
                IsStarted = false;
                Close();
                OnStopped();
                return true;
            }

            /// <summary>Stops and starts again, at the same port.</summary>
            /// <returns>False: it was not started.</returns>
            public virtual bool Restart() => Stop() && Start();

        """ + Forms("public virtual long Multicast", "Sends a datagram to the group, and waits for room.", Sent, " => MulticastEndpoint is { } group ? Send(group, buffer) : 0;")
        + Forms("public virtual bool MulticastAsync", "Queues a datagram for the group.", Queued, " => MulticastEndpoint is { } group && SendAsync(group, buffer);")
        + Forms("public virtual long Send", "Sends a datagram to the group, or to its own address where there is none, and waits for room.", Sent, " => Send(MulticastEndpoint ?? Endpoint, buffer);")
        + Tail
        + """

            /// <summary>It is bound, and about to start.</summary>
            protected virtual void OnStarting()
            {
            }

            /// <summary>It has started: the place to call <see cref="ReceiveAsync"/>.</summary>
            protected virtual void OnStarted()
            {
            }

            /// <summary>It is about to stop.</summary>
            protected virtual void OnStopping()
            {
            }

            /// <summary>It has stopped.</summary>
            protected virtual void OnStopped()
            {
            }

        """ + Common("OnSent(peer, bytes);", "OnReceived(peer, buffer, 0, 0);", "Stop();");

    internal static string Client => Head("Client", "A UDP socket that sends to one end point: override <see cref=\"OnReceived\"/>, and call <see cref=\"ReceiveAsync\"/> for each datagram.")
        + """

            /// <summary>Binds to the given address and port, instead of a free one: for members of a group. Set by <see cref="SetupMulticast"/>.</summary>
            public bool OptionMulticast { get; set; }

            /// <summary>Between a connect and the disconnect.</summary>
            public bool IsConnected { get; private set; }

            /// <summary>Opens the socket. Nothing is received before <see cref="ReceiveAsync"/>.</summary>
            /// <returns>False: it is open already.</returns>
            /// <exception cref="SocketException">It cannot be bound.</exception>
            public virtual bool Connect()
            {
                if (IsConnected) return false;
                OnConnecting();
                Open(OptionMulticast ? Endpoint : null);
                IsConnected = true;
                OnConnected();
                return true;
            }

            /// <summary>Sends what is queued, and closes.</summary>
            /// <returns>False: it is not open.</returns>
            public virtual bool Disconnect()
            {
                if (!IsConnected) return false;
                OnDisconnecting();
                IsConnected = false;
                Close();
                OnDisconnected();
                return true;
            }

            /// <summary>Closes it and opens it again.</summary>
            /// <returns>False: it was not open.</returns>
            public virtual bool Reconnect() => Disconnect() && Connect();

            /// <summary>Makes the next connect one of a member of a group: at the given address and port, which others may share.</summary>
            /// <param name="enable">True or false.</param>
            public virtual void SetupMulticast(bool enable) => OptionMulticast = OptionReuseAddress = enable;

            /// <summary>Joins a group.</summary>
            /// <param name="address">The group.</param>
            /// <exception cref="SocketException">It cannot be joined, or the client is not connected.</exception>
            public virtual void JoinMulticastGroup(IPAddress address)
            {
                _link.Join(address);
                OnJoinedMulticastGroup(address);
            }

            /// <summary>Joins a group.</summary>
            /// <param name="address">The group.</param>
            /// <exception cref="SocketException">It cannot be joined, or the client is not connected.</exception>
            public virtual void JoinMulticastGroup(string address) => JoinMulticastGroup(IPAddress.Parse(address));

            /// <summary>Leaves a group.</summary>
            /// <param name="address">The group.</param>
            /// <exception cref="SocketException">The client is not a member, or not connected.</exception>
            public virtual void LeaveMulticastGroup(IPAddress address)
            {
                _link.Leave(address);
                OnLeftMulticastGroup(address);
            }

            /// <summary>Leaves a group.</summary>
            /// <param name="address">The group.</param>
            /// <exception cref="SocketException">The client is not a member, or not connected.</exception>
            public virtual void LeaveMulticastGroup(string address) => LeaveMulticastGroup(IPAddress.Parse(address));

        """ + Forms("public virtual long Send", "Sends a datagram to the end point of the client, and waits for room.", Sent, " => Send(Target, buffer);")
        + Forms("public virtual bool SendAsync", "Queues a datagram for the end point of the client.", Queued, " => SendAsync(Target, buffer);")
        + Tail
        + """

            /// <summary>It is about to open.</summary>
            protected virtual void OnConnecting()
            {
            }

            /// <summary>It is open: the place to join groups, and to call <see cref="ReceiveAsync"/>.</summary>
            protected virtual void OnConnected()
            {
            }

            /// <summary>It is about to close.</summary>
            protected virtual void OnDisconnecting()
            {
            }

            /// <summary>It has closed. It may be opened again here.</summary>
            protected virtual void OnDisconnected()
            {
            }

            /// <summary>A group was joined.</summary>
            /// <param name="address">The group.</param>
            protected virtual void OnJoinedMulticastGroup(IPAddress address)
            {
            }

            /// <summary>A group was left.</summary>
            /// <param name="address">The group.</param>
            protected virtual void OnLeftMulticastGroup(IPAddress address)
            {
            }

        """ + Common("if (bytes > 0) OnSent(peer, bytes);", "Disconnect();", "Disconnect();");

    private static string Head(string noun, string summary) => $$"""
        using System.Net;
        using System.Net.Sockets;
        using System.Text;
        using Whimbrel;
        using Whimbrel.Compat;
        using Whimbrel.Compat.Datagrams;
        using Whimbrel.Compat.Links;

        namespace NetCoreServer;

        /// <summary>{{summary}}</summary>
        public class Udp{{noun}} : IDisposable, IDatagramOwner
        {
            private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(1);

            private readonly UdpLink _link;

            /// <summary>Makes one.</summary>
            /// <param name="address">The address.</param>
            /// <param name="port">The port.</param>
            public Udp{{noun}}(IPAddress address, int port)
                : this(new IPEndPoint(address, port))
            {
            }

            /// <summary>Makes one.</summary>
            /// <param name="address">The address.</param>
            /// <param name="port">The port.</param>
            public Udp{{noun}}(string address, int port)
                : this(new IPEndPoint(IPAddress.Parse(address), port))
            {
            }

            /// <summary>Makes one.</summary>
            /// <param name="endpoint">A name, which is looked up when it opens, and a port.</param>
            public Udp{{noun}}(DnsEndPoint endpoint)
                : this(endpoint, endpoint.Host, endpoint.Port)
            {
            }

            /// <summary>Makes one.</summary>
            /// <param name="endpoint">An address and a port.</param>
            public Udp{{noun}}(IPEndPoint endpoint)
                : this(endpoint, endpoint.Address.ToString(), endpoint.Port)
            {
            }

            private Udp{{noun}}(EndPoint endpoint, string address, int port)
            {
                Endpoint = endpoint;
                Address = address;
                Port = port;
                _link = new UdpLink(this);
            }

            /// <summary>A number of its own.</summary>
            public Guid Id { get; } = Guid.NewGuid();

            /// <summary>The address, as it was given.</summary>
            public string Address { get; }

            /// <summary>The port, as it was given.</summary>
            public int Port { get; }

            /// <summary>{{(noun == "Server" ? "The address it receives at, with the real port from the start on." : "Where it sends to.")}}</summary>
            public EndPoint Endpoint { get; private set; }

            /// <summary>The Socket object; null while it is not open.</summary>
            public Socket Socket => _link.Socket!;

            /// <summary>Bytes that wait to be sent.</summary>
            public long BytesPending => _link.BytesPending;

            /// <summary>Always 0: what was given to the system is counted as sent.</summary>
            public long BytesSending { get; }

            /// <summary>Bytes sent since it opened.</summary>
            public long BytesSent => _link.BytesSent;

            /// <summary>Bytes received since it opened.</summary>
            public long BytesReceived => _link.BytesReceived;

            /// <summary>Datagrams sent since it opened.</summary>
            public long DatagramsSent => _link.DatagramsSent;

            /// <summary>Datagrams received since it opened.</summary>
            public long DatagramsReceived => _link.DatagramsReceived;

            /// <summary>An IPv6 socket takes IPv4, too.</summary>
            public bool OptionDualMode { get; set; }

            /// <summary>Others may bind the same port.</summary>
            public bool OptionReuseAddress { get; set; }

            /// <summary>Nobody else can take the port by force: without <see cref="OptionReuseAddress"/> so it is.</summary>
            public bool OptionExclusiveAddressUse { get; set; }

            /// <summary>Longest datagram that is told; 0, the default, is no limit.</summary>
            public int OptionReceiveBufferLimit
            {
                get => _link.ReceiveLimit;
                set => _link.ReceiveLimit = value;
            }

            /// <summary>Kept, and without effect: a datagram of any length fits.</summary>
            public int OptionReceiveBufferSize { get; set; } = 8192;

            /// <summary>Most bytes that wait to be sent; 0, the default, is 4 MiB.</summary>
            public int OptionSendBufferLimit
            {
                get => _link.SendLimit;
                set => _link.SendLimit = value;
            }

            /// <summary>Kept, and without effect: the queue grows as it is needed.</summary>
            public int OptionSendBufferSize { get; set; } = 8192;

            /// <summary>True after Dispose.</summary>
            public bool IsDisposed { get; private set; }

            /// <summary>True while the socket is not open.</summary>
            public bool IsSocketDisposed { get; private set; } = true;

        """;

    private static string Tail =>
        Forms("public virtual long Send", "Sends a datagram, and waits for room.", Sent, " => _link.SendNow(endpoint, buffer, s_patience);", "EndPoint endpoint")
        + Forms("public virtual bool SendAsync", "Queues a datagram.", Queued, " => _link.Queue(endpoint, buffer);", "EndPoint endpoint")
        + """

            /// <summary>Waits for a datagram, for a minute.</summary>
            /// <param name="endpoint">Who sent it.</param>
            /// <param name="buffer">Where it goes.</param>
            /// <returns>Its bytes; 0 when none came.</returns>
            public virtual long Receive(ref EndPoint endpoint, byte[] buffer)
            {
                ArgumentNullException.ThrowIfNull(buffer);
                return Receive(ref endpoint, buffer, 0, buffer.Length);
            }

            /// <summary>Waits for a datagram, for a minute.</summary>
            /// <param name="endpoint">Who sent it.</param>
            /// <param name="buffer">Where it goes.</param>
            /// <param name="offset">Where in it.</param>
            /// <param name="size">Most bytes.</param>
            /// <returns>Its bytes; 0 when none came.</returns>
            public virtual long Receive(ref EndPoint endpoint, byte[] buffer, long offset, long size)
            {
                ArgumentNullException.ThrowIfNull(buffer);
                long count = _link.ReceiveNow(ref endpoint, buffer.AsSpan(checked((int)offset), checked((int)size)), s_patience);
                if (count > 0) OnReceived(endpoint, buffer, offset, count);
                return count;
            }

            /// <summary>Waits for a datagram, for a minute.</summary>
            /// <param name="endpoint">Who sent it.</param>
            /// <param name="size">Most bytes.</param>
            /// <returns>Its text; empty when none came.</returns>
            public virtual string Receive(ref EndPoint endpoint, long size)
            {
                byte[] buffer = new byte[checked((int)size)];
                return Encoding.UTF8.GetString(buffer, 0, (int)Receive(ref endpoint, buffer));
            }

            /// <summary>Fetches one datagram for <see cref="OnReceived"/>. Does nothing while one is on its way.</summary>
            public virtual void ReceiveAsync() => _link.Arm();

            /// <summary>Makes the socket: override it for options of your own.</summary>
            protected virtual Socket CreateSocket() => new(Endpoint.AddressFamily, SocketType.Dgram, ProtocolType.Udp);

        """;

    private static string Common(string sent, string tooLong, string end)
    {
        bool isServer = end == "Stop();";
        string open = isServer
            ? """
                private void Open(EndPoint local)
                {
                    local = Resolving.LookUp(local);
                    _link.Open(Options(local));
                    if (_link.EndPoint is { } bound) Endpoint = bound;
                    IsSocketDisposed = false;
                }
            """
            : """
                private EndPoint Target { get; set; } = new IPEndPoint(IPAddress.None, 0);

                private void Open(EndPoint? local)
                {
                    Target = Resolving.LookUp(Endpoint);
                    _link.Open(Options(local is null ? UdpAddress.AnyOf(Target) : Target));
                    IsSocketDisposed = false;
                }
            """;
        return $$"""

                /// <summary>A datagram has arrived. Call <see cref="ReceiveAsync"/> for the next one.</summary>
                /// <param name="endpoint">Who sent it.</param>
                /// <param name="buffer">Where it lies. Used again for the next one.</param>
                /// <param name="offset">Where it begins.</param>
                /// <param name="size">Its bytes.{{(isServer ? " 0 also behind an error, so that the next one can be fetched." : "")}}</param>
                protected virtual void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
                {
                }

                /// <summary>A datagram was queued.</summary>
                /// <param name="endpoint">Who it is for.</param>
                /// <param name="sent">Its bytes.{{(isServer ? " 0 behind an error." : "")}}</param>
                protected virtual void OnSent(EndPoint endpoint, long sent)
                {
                }

                /// <summary>Something failed.</summary>
                /// <param name="error">What.</param>
                protected virtual void OnError(SocketError error)
                {
                }

                /// <summary>Closes it for good.</summary>
                public void Dispose()
                {
                    Dispose(disposingManagedResources: true);
                    GC.SuppressFinalize(this);
                }

                /// <summary>Closes it.</summary>
                /// <param name="disposingManagedResources">True when called by Dispose.</param>
                protected virtual void Dispose(bool disposingManagedResources)
                {
                    if (IsDisposed) return;
                    if (disposingManagedResources) {{end}}
                    IsDisposed = true;
                }

                void IDatagramOwner.TellReceived(EndPoint peer, byte[] buffer, int size) => OnReceived(peer, buffer, 0, size);

                void IDatagramOwner.TellSent(EndPoint peer, long bytes)
                {
                    {{sent}}
                }

                void IDatagramOwner.TellTooLong(EndPoint peer, byte[] buffer) => {{tooLong}}

                void IDatagramOwner.TellError(SocketError error)
                {
                    if (ErrorMap.IsTold(error)) OnError(error);
                }

            {{open}}

                private void Close()
                {
                    _link.Close();
                    IsSocketDisposed = true;
                }

                private DatagramOptions Options(EndPoint local) => new()
                {
                    Engine = CompatOptions.Engine,
                    EndPoint = local,
                    DualMode = OptionDualMode,
                    ReuseAddress = OptionReuseAddress,
                    MulticastLoopback = true,
                    ReportPeerErrors = false,
                    DrainTimeout = CompatOptions.DrainTimeout,
                    SendLimitBytes = Math.Clamp(OptionSendBufferLimit, 4 * 1024 * 1024, 1 << 30),
                    CreateSocket = ((Func<Socket>)CreateSocket).Method.DeclaringType == typeof(Udp{{(isServer ? "Server" : "Client")}}) ? null : _ => CreateSocket(),
                };
            }

            """;
    }

    /// <summary>The five forms of bytes and text: four of them lead to the one with a span of bytes.</summary>
    private static string Forms(string head, string summary, string returns, string body, string before = "")
    {
        string name = head.Split(' ').Last();
        string first = before.Length == 0 ? "" : before + ", ", pass = before.Length == 0 ? "" : before.Split(' ').Last() + ", ";
        string firstDoc = before.Length == 0 ? "" : $"    /// <param name=\"{before.Split(' ').Last()}\">Who it is for.</param>\n";
        string Doc(params string[] parameters) => $"\n    /// <summary>{summary}</summary>\n{firstDoc}{string.Concat(parameters.Select(static p => $"    /// <param name=\"{p.Split('|')[0]}\">{p.Split('|')[1]}</param>\n"))}    /// <returns>{returns}</returns>\n";
        return Doc("buffer|The bytes. Copied.") + $"    {head}({first}byte[] buffer)\n    {{\n        ArgumentNullException.ThrowIfNull(buffer);\n        return {name}({pass}buffer.AsSpan());\n    }}\n"
            + Doc("buffer|Where the bytes lie. Copied.", "offset|Where they begin.", "size|How many they are.") + $"    {head}({first}byte[] buffer, long offset, long size)\n    {{\n        ArgumentNullException.ThrowIfNull(buffer);\n        return {name}({pass}buffer.AsSpan(checked((int)offset), checked((int)size)));\n    }}\n"
            + Doc("buffer|The bytes. Copied.") + $"    {head}({first}ReadOnlySpan<byte> buffer){body}\n"
            + Doc("text|Sent as UTF-8.") + $"    {head}({first}string text)\n    {{\n        ArgumentNullException.ThrowIfNull(text);\n        return {name}({pass}text.AsSpan());\n    }}\n"
            + Doc("text|Sent as UTF-8.") + $"    {head}({first}ReadOnlySpan<char> text)\n    {{\n        using PooledText utf8 = new(text);\n        return {name}({pass}utf8.Span);\n    }}\n";
    }
}
