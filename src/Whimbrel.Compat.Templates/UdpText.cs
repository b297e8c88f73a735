namespace Whimbrel.Compat.Templates;

/// <summary>Text of NetCoreServer's UdpServer and UdpClient, with their common part once.</summary>
internal static class UdpText
{
    private const string Queued = "False if it is closed, or there is no room.";
    private const string Sent = "Number of bytes queued; 0 if it is closed, or there was no room for a minute.";

    internal static string Server => Head("Server",
        "A UDP server: override <see cref=\"OnReceived\"/>, and call <see cref=\"ReceiveAsync\"/> for each datagram.")
        + """

            /// <summary>End point for <see cref="Multicast(ReadOnlySpan{byte})"/>, set by the start.</summary>
            public EndPoint MulticastEndpoint { get; private set; } = null!;

            /// <summary>True from a start until the stop.</summary>
            public bool IsStarted { get; private set; }

            /// <summary>Binds the socket. Nothing is received before <see cref="ReceiveAsync"/>.</summary>
            /// <returns>False if it is already started.</returns>
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

            /// <summary>Binds the socket, and sets the group for multicasts.</summary>
            /// <param name="multicastAddress">Address of the group.</param>
            /// <param name="multicastPort">Port of the group.</param>
            /// <returns>False if it is already started.</returns>
            public virtual bool Start(IPAddress multicastAddress, int multicastPort) => Start(new IPEndPoint(multicastAddress, multicastPort));

            /// <summary>Binds the socket, and sets the group for multicasts.</summary>
            /// <param name="multicastAddress">Address of the group.</param>
            /// <param name="multicastPort">Port of the group.</param>
            /// <returns>False if it is already started.</returns>
            public virtual bool Start(string multicastAddress, int multicastPort) => Start(new IPEndPoint(IPAddress.Parse(multicastAddress), multicastPort));

            /// <summary>Binds the socket, and sets the group for multicasts.</summary>
            /// <param name="multicastEndpoint">Address and port of the group.</param>
            /// <returns>False if it is already started.</returns>
            public virtual bool Start(EndPoint multicastEndpoint)
            {
                MulticastEndpoint = multicastEndpoint;
                return Start();
            }

            /// <summary>Sends queued datagrams, and closes.</summary>
            /// <returns>False if it is not started.</returns>
            public virtual bool Stop()
            {
                if (!IsStarted) return false;
                OnStopping();
                IsStarted = false;
                Close();
                OnStopped();
                return true;
            }

            /// <summary>Stops, then starts at the same port.</summary>
            /// <returns>False if it was not started.</returns>
            public virtual bool Restart() => Stop() && Start();

        """ + Forms("public virtual long Multicast", "Sends a datagram to the group, and waits for room.", Sent,
            " => MulticastEndpoint is { } group ? Send(group, buffer) : 0;")
        + Forms("public virtual bool MulticastAsync", "Queues a datagram for the group.", Queued,
            " => MulticastEndpoint is { } group && SendAsync(group, buffer);")
        + Forms("public virtual long Send",
            "Sends a datagram to the group, or to its own address without a group, and waits for room.", Sent,
            " => Send(MulticastEndpoint ?? Endpoint, buffer);")
        + Tail
        + """

            /// <summary>Called when the socket is bound, before the start.</summary>
            protected virtual void OnStarting()
            {
            }

            /// <summary>Called when the server has started. Call <see cref="ReceiveAsync"/> here.</summary>
            protected virtual void OnStarted()
            {
            }

            /// <summary>Called before the server stops.</summary>
            protected virtual void OnStopping()
            {
            }

            /// <summary>Called when the server has stopped.</summary>
            protected virtual void OnStopped()
            {
            }

        """ + Common("OnSent(peer, bytes);", "OnReceived(peer, buffer, 0, 0);", "Stop();");

    internal static string Client => Head("Client", "A UDP client of one end point: override <see "
        + "cref=\"OnReceived\"/>, and call <see cref=\"ReceiveAsync\"/> for each datagram.")
        + """

            /// <summary>True to bind to the client's address and port instead of a free port, for members of a group.
            /// See <see cref="SetupMulticast"/>.</summary>
            public bool OptionMulticast { get; set; }

            /// <summary>True from a connect until the disconnect.</summary>
            public bool IsConnected { get; private set; }

            /// <summary>Opens the socket. Nothing is received before <see cref="ReceiveAsync"/>.</summary>
            /// <returns>False if it is already open.</returns>
            /// <exception cref="SocketException">The socket cannot be bound.</exception>
            public virtual bool Connect()
            {
                if (IsConnected) return false;
                OnConnecting();
                Open(OptionMulticast ? Endpoint : null);
                IsConnected = true;
                OnConnected();
                return true;
            }

            /// <summary>Sends queued datagrams, and closes.</summary>
            /// <returns>False if it is not open.</returns>
            public virtual bool Disconnect()
            {
                if (!IsConnected) return false;
                OnDisconnecting();
                IsConnected = false;
                Close();
                OnDisconnected();
                return true;
            }

            /// <summary>Closes the socket and opens it again.</summary>
            /// <returns>False if it was not open.</returns>
            public virtual bool Reconnect() => Disconnect() && Connect();

            /// <summary>Sets <see cref="OptionMulticast"/> and <see cref="OptionReuseAddress"/>, for members of a
            /// group.</summary>
            /// <param name="enable">New value.</param>
            public virtual void SetupMulticast(bool enable) => OptionMulticast = OptionReuseAddress = enable;

            /// <summary>Joins a group.</summary>
            /// <param name="address">Address of the group.</param>
            /// <exception cref="SocketException">The group cannot be joined, or the client is not
            /// connected.</exception>
            public virtual void JoinMulticastGroup(IPAddress address)
            {
                _link.Join(address);
                OnJoinedMulticastGroup(address);
            }

            /// <summary>Joins a group.</summary>
            /// <param name="address">Address of the group.</param>
            /// <exception cref="SocketException">The group cannot be joined, or the client is not
            /// connected.</exception>
            public virtual void JoinMulticastGroup(string address) => JoinMulticastGroup(IPAddress.Parse(address));

            /// <summary>Leaves a group.</summary>
            /// <param name="address">Address of the group.</param>
            /// <exception cref="SocketException">The client is not a member, or not connected.</exception>
            public virtual void LeaveMulticastGroup(IPAddress address)
            {
                _link.Leave(address);
                OnLeftMulticastGroup(address);
            }

            /// <summary>Leaves a group.</summary>
            /// <param name="address">Address of the group.</param>
            /// <exception cref="SocketException">The client is not a member, or not connected.</exception>
            public virtual void LeaveMulticastGroup(string address) => LeaveMulticastGroup(IPAddress.Parse(address));

        """ + Forms("public virtual long Send", "Sends a datagram to the end point of the client, and waits for room.",
            Sent, " => Send(Target, buffer);")
        + Forms("public virtual bool SendAsync", "Queues a datagram for the end point of the client.", Queued,
            " => SendAsync(Target, buffer);")
        + Tail
        + """

            /// <summary>Called before the socket opens.</summary>
            protected virtual void OnConnecting()
            {
            }

            /// <summary>Called when the socket is open. Join groups and call <see cref="ReceiveAsync"/> here.</summary>
            protected virtual void OnConnected()
            {
            }

            /// <summary>Called before the socket closes.</summary>
            protected virtual void OnDisconnecting()
            {
            }

            /// <summary>Called when the socket has closed. It may be opened again here.</summary>
            protected virtual void OnDisconnected()
            {
            }

            /// <summary>Called when a group was joined.</summary>
            /// <param name="address">Address of the group.</param>
            protected virtual void OnJoinedMulticastGroup(IPAddress address)
            {
            }

            /// <summary>Called when a group was left.</summary>
            /// <param name="address">Address of the group.</param>
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

            /// <summary>Creates an object.</summary>
            /// <param name="address">IP address.</param>
            /// <param name="port">Port number.</param>
            public Udp{{noun}}(IPAddress address, int port)
                : this(new IPEndPoint(address, port))
            {
            }

            /// <summary>Creates an object.</summary>
            /// <param name="address">IP address.</param>
            /// <param name="port">Port number.</param>
            public Udp{{noun}}(string address, int port)
                : this(new IPEndPoint(IPAddress.Parse(address), port))
            {
            }

            /// <summary>Creates an object.</summary>
            /// <param name="endpoint">Host name, which is looked up when the socket opens, and port.</param>
            public Udp{{noun}}(DnsEndPoint endpoint)
                : this(endpoint, endpoint.Host, endpoint.Port)
            {
            }

            /// <summary>Creates an object.</summary>
            /// <param name="endpoint">Address and port.</param>
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

            /// <summary>Unique id of the object.</summary>
            public Guid Id { get; } = Guid.NewGuid();

            /// <summary>Address, as passed to the constructor.</summary>
            public string Address { get; }

            /// <summary>Port, as passed to the constructor.</summary>
            public int Port { get; }

            /// <summary>
            /// {{(noun == "Server" ? "Local end point, with its port after the start." : "End point to send to.")}}
            /// </summary>
            public EndPoint Endpoint { get; private set; }

            /// <summary>Socket object; null while the socket is not open.</summary>
            public Socket Socket => _link.Socket!;

            /// <summary>Number of bytes pending.</summary>
            public long BytesPending => _link.BytesPending;

            /// <summary>Always 0: bytes accepted by the system count as sent.</summary>
            public long BytesSending { get; }

            /// <summary>Number of bytes sent since the socket opened.</summary>
            public long BytesSent => _link.BytesSent;

            /// <summary>Number of bytes received since the socket opened.</summary>
            public long BytesReceived => _link.BytesReceived;

            /// <summary>Number of datagrams sent since the socket opened.</summary>
            public long DatagramsSent => _link.DatagramsSent;

            /// <summary>Number of datagrams received since the socket opened.</summary>
            public long DatagramsReceived => _link.DatagramsReceived;

            /// <summary>True if an IPv6 socket accepts IPv4, too.</summary>
            public bool OptionDualMode { get; set; }

            /// <summary>True if other sockets may bind the port.</summary>
            public bool OptionReuseAddress { get; set; }

            /// <summary>Stored only: no other socket can bind the port without <see
            /// cref="OptionReuseAddress"/>.</summary>
            public bool OptionExclusiveAddressUse { get; set; }

            /// <summary>Longest datagram passed to OnReceived; 0 (default): no limit.</summary>
            public int OptionReceiveBufferLimit
            {
                get => _link.ReceiveLimit;
                set => _link.ReceiveLimit = value;
            }

            /// <summary>Stored only: a datagram of any length fits.</summary>
            public int OptionReceiveBufferSize { get; set; } = 8192;

            /// <summary>Largest number of bytes pending; 0 (default): 4 MiB.</summary>
            public int OptionSendBufferLimit
            {
                get => _link.SendLimit;
                set => _link.SendLimit = value;
            }

            /// <summary>Stored only: the queue grows on demand.</summary>
            public int OptionSendBufferSize { get; set; } = 8192;

            /// <summary>True after Dispose.</summary>
            public bool IsDisposed { get; private set; }

            /// <summary>True while the socket is not open.</summary>
            public bool IsSocketDisposed { get; private set; } = true;

        """;

    private static string Tail =>
        Forms("public virtual long Send", "Sends a datagram, and waits for room.", Sent,
            " => _link.SendNow(endpoint, buffer, s_patience);", "EndPoint endpoint")
        + Forms("public virtual bool SendAsync", "Queues a datagram.", Queued, " => _link.Queue(endpoint, buffer);",
            "EndPoint endpoint")
        + """

            /// <summary>Waits for a datagram, for a minute.</summary>
            /// <param name="endpoint">Sender of the datagram.</param>
            /// <param name="buffer">Array for the data.</param>
            /// <returns>Number of bytes; 0 if none arrived.</returns>
            public virtual long Receive(ref EndPoint endpoint, byte[] buffer)
            {
                ArgumentNullException.ThrowIfNull(buffer);
                return Receive(ref endpoint, buffer, 0, buffer.Length);
            }

            /// <summary>Waits for a datagram, for a minute.</summary>
            /// <param name="endpoint">Sender of the datagram.</param>
            /// <param name="buffer">Array for the data.</param>
            /// <param name="offset">Offset in <paramref name="buffer"/>.</param>
            /// <param name="size">Largest number of bytes.</param>
            /// <returns>Number of bytes; 0 if none arrived.</returns>
            public virtual long Receive(ref EndPoint endpoint, byte[] buffer, long offset, long size)
            {
                ArgumentNullException.ThrowIfNull(buffer);
                long count = _link.ReceiveNow(ref endpoint, buffer.AsSpan(checked((int)offset), checked((int)size)), s_patience);
                if (count > 0) OnReceived(endpoint, buffer, offset, count);
                return count;
            }

            /// <summary>Waits for a datagram, for a minute.</summary>
            /// <param name="endpoint">Sender of the datagram.</param>
            /// <param name="size">Largest number of bytes.</param>
            /// <returns>Text; empty if none arrived.</returns>
            public virtual string Receive(ref EndPoint endpoint, long size)
            {
                byte[] buffer = new byte[checked((int)size)];
                return Encoding.UTF8.GetString(buffer, 0, (int)Receive(ref endpoint, buffer));
            }

            /// <summary>Fetches one datagram for <see cref="OnReceived"/>. Does nothing while a fetch is
            /// pending.</summary>
            public virtual void ReceiveAsync() => _link.Arm();

            /// <summary>Creates the socket. The default's socket is not used; that of an override is.</summary>
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

                /// <summary>Called for each datagram. Call <see cref="ReceiveAsync"/> for the next one.</summary>
                /// <param name="endpoint">Sender of the datagram.</param>
                /// <param name="buffer">Array with the data. It is reused for the next datagram.</param>
                /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
                /// <param name="size">
                /// Number of bytes.{{(isServer ? " 0 also after an error, so that the next can be fetched." : "")}}
                /// </param>
                protected virtual void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
                {
                }

                /// <summary>Called when a datagram was queued.</summary>
                /// <param name="endpoint">Receiver of the datagram.</param>
                /// <param name="sent">Number of bytes.{{(isServer ? " 0 after an error." : "")}}</param>
                protected virtual void OnSent(EndPoint endpoint, long sent)
                {
                }

                /// <summary>Called for errors.</summary>
                /// <param name="error">Error code.</param>
                protected virtual void OnError(SocketError error)
                {
                }

                /// <summary>Closes the socket permanently.</summary>
                public void Dispose()
                {
                    Dispose(disposingManagedResources: true);
                    GC.SuppressFinalize(this);
                }

                /// <summary>Closes the socket.</summary>
                /// <param name="disposingManagedResources">True if called by Dispose.</param>
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

    /// <summary>Returns the five overloads for bytes and text. Each calls the one that the original calls, because
    /// programs override them: text calls the one with an array, arrays call the one with a span.</summary>
    private static string Forms(string head, string summary, string returns, string body, string before = "")
    {
        string name = head.Split(' ').Last();
        string first = before.Length == 0 ? "" : before + ", ",
            pass = before.Length == 0 ? "" : before.Split(' ').Last() + ", ";
        string firstDoc = before.Length == 0
            ? ""
            : $"    /// <param name=\"{before.Split(' ').Last()}\">Receiver of the datagram.</param>\n";
        string Doc(params string[] parameters) => $"\n    /// <summary>{summary}</summary>\n{firstDoc}"
            + string.Concat(parameters.Select(Members.ParameterLine)) + $"    /// <returns>{returns}</returns>\n";
        return Doc("buffer|Bytes to send. They are copied.") + $"    {head}({first}byte[] buffer)\n    {{\n        "
            + $"ArgumentNullException.ThrowIfNull(buffer);\n        return {name}({pass}buffer.AsSpan());\n    }}\n"
            + Doc("buffer|Array with the bytes, which are copied.",
                "offset|Offset of the first byte in <paramref name=\"buffer\"/>.", "size|Number of bytes.")
            + $"    {head}({first}byte[] buffer, long offset, long size)\n    "
            + $"{{\n        ArgumentNullException.ThrowIfNull(buffer);\n        return "
            + $"{name}({pass}buffer.AsSpan(checked((int)offset), checked((int)size)));\n    }}\n"
            + Doc("buffer|Bytes to send. They are copied.") + $"    {head}({first}ReadOnlySpan<byte> buffer){body}\n"
            + Doc("text|Text to send as UTF-8.") + $"    {head}({first}string text)\n    {{\n        "
            + $"ArgumentNullException.ThrowIfNull(text);\n        return {name}({pass}Encoding.UTF8.GetBytes(text));\n"
            + "    }\n"
            + Doc("text|Text to send as UTF-8.") + $"    {head}({first}ReadOnlySpan<char> text) => "
            + $"{name}({pass}Encoding.UTF8.GetBytes(text.ToArray()));\n";
    }
}
