namespace Whimbrel.Compat.Templates;

/// <summary>Http*Server</summary>
internal static class HttpServerText
{
    internal static string Text(Variant v) => $$"""
        using System.Net;
        using Whimbrel.Compat;

        namespace NetCoreServer;

        /// <summary>A server of HTTP/1.1{{v.Over}}: make its sessions in <see cref="CreateSession"/>. Files of folders are answered by themselves.</summary>
        public class Http{{v.S}}Server : {{v.Transport}}Server
        {
        {{Members.Constructors(v, $"Http{v.S}Server")}}
            /// <summary>What is answered to GET without asking a session: whole responses by their path.</summary>
            public FileCache Cache { get; } = new();

            /// <summary>Limits of the requests of new sessions.</summary>
            internal Whimbrel.Http.HttpOptions Limits { get; set; } = HttpLimits.OfServers;

            /// <summary>Answers GET for the files of a folder, and follows it.</summary>
            /// <param name="path">The folder.</param>
            /// <param name="prefix">Before the path of each file in its URL.</param>
            /// <param name="filter">Names of the files, with <c>*</c> and <c>?</c>. The default takes all.</param>
            /// <param name="timeout">What Cache-Control says, and when a file is read again. The default is an hour.</param>
            public void AddStaticContent(string path, string prefix = "/", string filter = "*.*", TimeSpan? timeout = null) => StaticContent.Add(Cache, path, prefix, filter, timeout);

            /// <summary>Answers for a folder no more.</summary>
            /// <param name="path">The folder, as it was given.</param>
            public void RemoveStaticContent(string path) => Cache.RemovePath(path);

            /// <summary>Answers for no folder any more.</summary>
            public void ClearStaticContent() => Cache.Clear();

            /// <summary>Makes the session of a connection.</summary>
            protected override {{v.Transport}}Session CreateSession() => new Http{{v.S}}Session(this);

            /// <inheritdoc/>
            protected override void Dispose(bool disposingManagedResources)
            {
                base.Dispose(disposingManagedResources);
                if (disposingManagedResources) Cache.Dispose();
            }
        }

        """;
}
