using Chat_Server;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Whimbrel.Hosting;

HostApplicationBuilder builder = Host.CreateApplicationBuilder(new HostApplicationBuilderSettings { Args = args, ContentRootPath = AppContext.BaseDirectory });

// Settings of our own, beside those of the server. A mistake in either ends the program before anything listens.
builder.Services.AddOptions<RoomOptions>().BindConfiguration("Room")
    .Validate(room => room.LongestName is >= 1 and <= 100, "Room:LongestName: 1 to 100")
    .ValidateOnStart();
builder.Services.AddSingleton<Room>();

// The server's options are the section Chat of appsettings.json. Its sessions get their services by constructor.
builder.Services.AddWhimbrelServer<ChatSession>("Chat");
builder.Services.AddHealthChecks().AddWhimbrelServer("Chat");

// Ctrl-C and SIGTERM stop the host: nobody new is let in, and who is here has so long to finish.
builder.Services.Configure<HostOptions>(host => host.ShutdownTimeout = TimeSpan.FromSeconds(10));

await builder.Build().RunAsync();
