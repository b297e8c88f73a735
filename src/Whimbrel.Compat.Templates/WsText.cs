namespace Whimbrel.Compat.Templates;

/// <summary>Ws*Server, Ws*Session and Ws*Client.</summary>
internal static class WsText
{
    private static readonly (string Kind, string What)[] s_kinds = [("Text", "a text message"),
        ("Binary", "a binary message"), ("Close", "a close frame"), ("Ping", "a ping"), ("Pong", "a pong")];

    internal static string Server(Variant v) => $$"""
        using System.Net;
        using Whimbrel;
        using Whimbrel.Compat;
        using Whimbrel.Compat.Links;
        using Whimbrel.Http;

        namespace NetCoreServer;

        /// <summary>
        /// WebSocket server{{v.Over}}: override <see cref="CreateSession"/>. It answers HTTP as well.
        /// </summary>
        public class Ws{{v.S}}Server : Http{{v.S}}Server, IWebSocket
        {
        {{Members.Constructors(v, $"Ws{v.S}Server")}}
            /// <summary>Sessions with an open WebSocket, from the handshake to the close.</summary>
            internal SessionGroup OpenSockets { get; } = new("WebSockets");

            /// <summary>Closes all WebSockets without a status, and disconnects all sessions.</summary>
            /// <returns>False if the server is not started.</returns>
            public virtual bool CloseAll() => CloseAll(0, ReadOnlySpan<byte>.Empty);

            /// <summary>Closes all WebSockets, and disconnects all sessions.</summary>
            /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as
            /// 1000.</param>
            /// <returns>False if the server is not started.</returns>
            public virtual bool CloseAll(int status) => CloseAll(status, ReadOnlySpan<byte>.Empty);

        {{Members.Forms("public virtual bool CloseAll", "Closes all WebSockets with a reason, and disconnects all sessions.", "False if the server is not started.", $$"""

                {
                    if (!IsStarted) return false;
                    foreach ((_, {{v.Transport}}Session session) in Sessions)
                    {
                        if (session is Ws{{v.S}}Session { WebSocket.IsOpen: true } open) open.SendCloseAsync(status, buffer);
                    }

                    return base.DisconnectAll();
                }
            """, "int status")}}

            /// <summary>Sends bytes unchanged to all sessions with an open WebSocket.</summary>
            /// <param name="buffer">Complete frames, which are copied.</param>
            /// <returns>False if the server is not started.</returns>
            public override bool Multicast(ReadOnlySpan<byte> buffer)
            {
                if (!IsStarted) return false;
                if (buffer.IsEmpty || Broadcast(buffer, OpenSockets)) return true;
                Link.ToEach<Guid, {{v.Transport}}Session, EachOpen>(buffer, Sessions);
                return true;
            }

        {{Multicasts()}}

            /// <summary>Creates the session for a connection.</summary>
            protected override {{v.Transport}}Session CreateSession() => new Ws{{v.S}}Session(this);

            private readonly struct EachOpen : IEachSend<{{v.Transport}}Session>
            {
                public static void Send({{v.Transport}}Session session, Multicasting multicasting, ReadOnlySpan<byte> data)
                {
                    if (session is Ws{{v.S}}Session { WebSocket: { IsOpen: true, IsClosing: false } }) session.SendAsync(data);
                }
            }
        }

        """;

    private static string Multicasts() =>
        string.Join("\n\n", s_kinds.Where(static k => k.Kind is "Text" or "Binary" or "Ping")
            .Select(static k => Members.Forms($"public bool Multicast{k.Kind}",
                $"Sends {k.What} to all sessions with an open WebSocket. The frame is composed once.",
                "False if the server is not started.", $$"""

                        {
                            using PooledFrame frame = new(WebSocketPart.{{k.Kind}}, buffer, ofClient: false);
                            return Multicast(frame.Span);
                        }
                    """)));

    internal static string Session(Variant v) => $$"""
        using System.Net.Sockets;
        using Whimbrel.Compat;
        using Whimbrel.Http;

        namespace NetCoreServer;

        /// <summary>
        /// WebSocket session of a server{{v.Over}}: override <see cref="OnWsReceived"/>. Until its upgrade it is an
        /// HTTP session. Frames are parsed strictly, within limits (<see cref="NetCoreServer.WebSocket"/>).
        /// </summary>
        public class Ws{{v.S}}Session : Http{{v.S}}Session, IWebSocket, IWsOwner
        {
            /// <summary>Creates the session for a connection.</summary>
            /// <param name="server">Server of the session.</param>
            public Ws{{v.S}}Session(Ws{{v.S}}Server server)
                : base(server) => WebSocket = new WebSocket(this);

            internal WebSocket WebSocket { get; }

            private protected override bool IsUpgraded => WebSocket.IsOpen;

            bool? IWsOwner.Queue(ReadOnlySpan<byte> head, ReadOnlySpan<byte> payload) => QueueInPieces(head, payload);

        {{Closing("Close", "SendClose", "Disconnect")}}

        {{Sending()}}
            /// <summary>Closes an open WebSocket with 1001, because the connection is about to end.</summary>
            protected override void OnDisconnecting()
            {
                if (!WebSocket.IsOpen) return;
                WsSending.QueueClose(WebSocket, this, (int)WebSocketStatus.GoingAway, default);
                OnWsDisconnecting();
            }

            /// <summary>Called when the connection has ended.</summary>
            protected override void OnDisconnected()
            {
                base.OnDisconnected();
                bool wasOpen = WebSocket.IsOpen;
                WebSocket.ClearWsBuffers();
                if (wasOpen) OnWsDisconnected();
            }

            /// <summary>Parses frames, or requests before the upgrade.</summary>
            /// <param name="buffer">Array with the received bytes. Frames are unmasked in place.</param>
            /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
            /// <param name="size">Number of bytes.</param>
            protected override void OnReceived(byte[] buffer, long offset, long size)
            {
                if (WebSocket.IsOpen) ReceiveFrames(buffer, offset, size);
                else base.OnReceived(buffer, offset, size);
            }

            /// <summary>Answers an upgrade request when its header was parsed.</summary>
            /// <param name="request">Request without its body.</param>
            protected override void OnReceivedRequestHeader(HttpRequest request) => WebSocket.PerformServerUpgrade(request, Response);

            /// <summary>
            /// Called for each request: one that upgraded the session (after <see cref="OnWsConnected(HttpRequest)"/>;
            /// no response can be sent), one without an upgrade, or one with a rejected upgrade. The default answers
            /// an upgrade that <see cref="OnWsConnecting(HttpRequest, HttpResponse)"/> rejected and that has no answer,
            /// with the response composed there or with 403, and ends the connection.
            /// </summary>
            /// <param name="request">Request of the client.</param>
            protected override void OnReceivedRequest(HttpRequest request)
            {
                if (WebSocket.IsRefused && !IsAnswered) WebSocket.AnswerRefused(Response);
            }

            /// <summary>Called for an invalid request.</summary>
            /// <param name="request">Incomplete request.</param>
            /// <param name="error">Description of the error.</param>
            protected override void OnReceivedRequestError(HttpRequest request, string error) => base.OnReceivedRequestError(request, error);

        {{Told("Close();")}}

            /// <summary>Sends the response to an upgrade request. A rejection is the last response of its
            /// connection.</summary>
            /// <param name="response">Response to send.</param>
            public void SendUpgrade(HttpResponse response)
            {
                ArgumentNullException.ThrowIfNull(response);
                bool isRefusal = response.Status != 101;
                if (isRefusal) response.Message.AddFirst("Connection", "close");
                // Not sent by an override of SendAsync: the client would wait for its answer forever.
                if (!SendResponseAsync(response)) Disconnect();
                if (isRefusal) RefuseMore();
            }

            void IWsOwner.Opening() => Link.JoinHeld(((Ws{{v.S}}Server)Server).OpenSockets);

            void IWsOwner.Opened() => Link.OpenGate(((Ws{{v.S}}Server)Server).OpenSockets);

            void IWsOwner.Closing() => Link.Leave(((Ws{{v.S}}Server)Server).OpenSockets);

        {{Owner("Disconnect")}}
        }

        """;

    internal static string Client(Variant v) => $$"""
        using System.Net;
        using System.Net.Sockets;
        using Whimbrel.Compat;
        using Whimbrel.Http;

        namespace NetCoreServer;

        /// <summary>
        /// WebSocket client{{v.Over}}: complete its request in <see cref="OnWsConnecting(HttpRequest)"/>, and override
        /// <see cref="OnWsReceived"/>. Frames are parsed strictly, within limits (<see cref="WebSocket"/>).
        /// </summary>
        public class Ws{{v.S}}Client : Http{{v.S}}Client, IWebSocket, IWsOwner
        {
            private bool _isBlocking;

        {{Members.Constructors(v, $"Ws{v.S}Client", " => WebSocket = new WebSocket(this);")}}
            /// <summary>Key of the handshake: 16 bytes, for Sec-WebSocket-Key in base64. Each connection has another
            /// one.</summary>
            public byte[] WsNonce => WebSocket.Nonce;

            internal WebSocket WebSocket { get; }

            private protected override bool IsUpgraded => WebSocket.IsOpen;

            /// <summary>Connects, and sends the upgrade request.</summary>
            /// <returns>False if it is already connected, or the connect failed.</returns>
            public override bool Connect()
            {
                _isBlocking = true;
                return base.Connect();
            }

            /// <summary>Starts to connect, and then sends the upgrade request.</summary>
            /// <returns>False if it is connected or connecting.</returns>
            public override bool ConnectAsync()
            {
                _isBlocking = false;
                return base.ConnectAsync();
            }

        {{Closing("Close", "SendClose", "Disconnect")}}

        {{Closing("CloseAsync", "SendCloseAsync", "DisconnectAsync")}}

        {{Sending()}}
            /// <summary>Sends the upgrade request.</summary>
            protected override void On{{v.Ready}}()
            {
                WebSocket.ClearWsBuffers();
                Request.Clear();
                OnWsConnecting(Request);
                if (Request.IsEmpty)
                {
                    OnWsError("OnWsConnecting composed no request: call SetBegin, and set the headers of the upgrade.");
                    DisconnectAsync();
                    return;
                }

                Request.SetBody();
                if (_isBlocking) SendRequest(Request);
                else SendRequestAsync(Request);
            }

            /// <summary>Closes an open WebSocket with 1001, because the connection is about to end.</summary>
            protected override void OnDisconnecting()
            {
                if (!WebSocket.IsOpen) return;
                WsSending.QueueClose(WebSocket, this, (int)WebSocketStatus.GoingAway, default);
                OnWsDisconnecting();
            }

            /// <summary>Called when the connection has ended.</summary>
            protected override void OnDisconnected()
            {
                base.OnDisconnected();
                bool wasOpen = WebSocket.IsOpen;
                Request.Clear();
                WebSocket.ClearWsBuffers();
                WebSocket.InitWsNonce();
                if (wasOpen) OnWsDisconnected();
            }

            /// <summary>Parses frames, or the response before the upgrade.</summary>
            /// <param name="buffer">Array with the received bytes. Frames are unmasked in place.</param>
            /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
            /// <param name="size">Number of bytes.</param>
            protected override void OnReceived(byte[] buffer, long offset, long size)
            {
                if (WebSocket.IsOpen) ReceiveFrames(buffer, offset, size);
                else base.OnReceived(buffer, offset, size);
            }

            /// <summary>Validates the response to the upgrade request.</summary>
            /// <param name="response">Response without its body.</param>
            protected override void OnReceivedResponseHeader(HttpResponse response) => WebSocket.PerformClientUpgrade(response, Id);

            /// <summary>Reports a response without an upgrade as an error, and disconnects.</summary>
            /// <param name="response">Response of the server.</param>
            protected override void OnReceivedResponse(HttpResponse response)
            {
                OnWsError($"The server did not upgrade: {response.Status} {response.StatusPhrase}.");
                DisconnectAsync();
            }

            /// <summary>Called for an invalid response.</summary>
            /// <param name="response">Incomplete response.</param>
            /// <param name="error">Description of the error.</param>
            protected override void OnReceivedResponseError(HttpResponse response, string error)
            {
                OnWsError(error);
                base.OnReceivedResponseError(response, error);
            }

        {{Told("CloseAsync();")}}

        {{Owner("DisconnectAsync")}}
        }

        """;

    private static string Closing(string close, string send, string disconnect) => $$"""
            /// <summary>Sends a close frame without a status, and disconnects after it.</summary>
            /// <returns>True.</returns>
            public virtual bool {{close}}() => {{close}}(0, ReadOnlySpan<byte>.Empty);

            /// <summary>Sends a close frame, and disconnects after it.</summary>
            /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as
            /// 1000.</param>
            /// <returns>True.</returns>
            public virtual bool {{close}}(int status) => {{close}}(status, ReadOnlySpan<byte>.Empty);

        {{Members.Forms($"public virtual bool {close}", "Sends a close frame with a reason, and disconnects after it.", "True.", $$"""

                {
                    {{send}}(status, buffer);
                    base.{{disconnect}}();
                    return true;
                }
            """, "int status")}}
        """;

    private static string Sending() => string.Join("\n\n", s_kinds.Select(static k => Members.Twice(
        (a, result, how, gives) => Members.Forms($"public {result} Send{k.Kind}{a}", $"Sends {k.What}{how}.", gives,
            k.Kind == "Close"
                ? $" => WsSending.{(a.Length > 0 ? "QueueClose" : "SendClose")}(WebSocket, this, status, buffer);"
                : $" => WsSending.{(a.Length > 0 ? "Queue" : "Send")}(WebSocket, this, "
                    + $"WebSocketPart.{k.Kind}, buffer);",
            k.Kind == "Close" ? "int status" : "")).TrimEnd('\n'))) + """


                /// <summary>Waits for the next message, and returns it as text. Use it after the synchronous
                /// Connect.</summary>
                /// <returns>Text; empty if the connection ends before the message is complete.</returns>
                public string ReceiveText() => ReceiveBinary().ToString();

                /// <summary>Waits for the next message. Use it after the synchronous Connect.</summary>
                /// <returns>Message; empty if the connection ends before the message is complete.</returns>
                public Buffer ReceiveBinary() => WsSending.Receive(WebSocket, this);

            """;

    private static string Told(string close) => $$"""
            /// <inheritdoc/>
            public virtual void OnWsConnecting(HttpRequest request)
            {
            }

            /// <inheritdoc/>
            public virtual void OnWsConnected(HttpResponse response)
            {
            }

            /// <inheritdoc/>
            public virtual bool OnWsConnecting(HttpRequest request, HttpResponse response) => true;

            /// <inheritdoc/>
            public virtual void OnWsConnected(HttpRequest request)
            {
            }

            /// <inheritdoc/>
            public virtual void OnWsDisconnecting()
            {
            }

            /// <inheritdoc/>
            public virtual void OnWsDisconnected()
            {
            }

            /// <inheritdoc/>
            public virtual void OnWsReceived(byte[] buffer, long offset, long size)
            {
            }

            /// <summary>Called when the peer closes. The default closes as well.</summary>
            /// <param name="buffer">Array with the reason.</param>
            /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
            /// <param name="size">Number of bytes.</param>
            /// <param name="status">Status of the close frame; 1000 if it has none.</param>
            public virtual void OnWsClose(byte[] buffer, long offset, long size, int status = 1000) => {{close}}

            /// <summary>Called for each ping. The default answers it.</summary>
            /// <param name="buffer">Array with the payload.</param>
            /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
            /// <param name="size">Number of bytes.</param>
            public virtual void OnWsPing(byte[] buffer, long offset, long size) => SendPongAsync(buffer, offset, size);

            /// <inheritdoc/>
            public virtual void OnWsPong(byte[] buffer, long offset, long size)
            {
            }

            /// <summary>Called when the peer broke a rule. The default calls OnError.</summary>
            /// <param name="error">Description of the error.</param>
            public virtual void OnWsError(string error) => OnError(SocketError.SocketError);

            /// <summary>Called when the connection failed. The default calls OnError.</summary>
            /// <param name="error">Error code.</param>
            public virtual void OnWsError(SocketError error) => OnError(error);
        """;

    private static string Owner(string disconnect) => $$"""
            // Not an override's: as in the original, frames do not pass it. One that sends its bytes as a message would
            // call itself.
            bool IWsOwner.Queue(ReadOnlySpan<byte> bytes) => base.SendAsync(bytes);

            long IWsOwner.SendNow(ReadOnlySpan<byte> bytes) => base.Send(bytes);

            long IWsOwner.ReceiveNow(byte[] buffer, long offset, long size) => base.Receive(buffer, offset, size);

            // A peer that breaks a rule gets a close frame with the status, and nothing more is read from it.
            private void ReceiveFrames(byte[] buffer, long offset, long size)
            {
                WebSocket.PrepareReceiveFrame(buffer, offset, size);
                if (WebSocket.Verdict is not { } status) return;
                WsSending.QueueClose(WebSocket, this, (int)status, default);
                {{disconnect}}();
            }
        """;
}
